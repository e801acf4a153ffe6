"""Freeze the configuration before the checks: absolute directories, the checkpoint to resume from, Ray's environment.

Checks, the run's files and verl all use this configuration.
"""

import contextlib
import copy
import json
import os
from pathlib import Path
from typing import Any

from rpg.config.run_config import RunConfig, logs_to
from rpg.config.verl_keys import EXTERNAL_LIB, MODEL, PATHS, RAY
from rpg.dotted import put
from rpg.files.atomic import METRICS, SAMPLES
from rpg.files.integrity import newest_complete
from rpg.verl_plugin import external
from rpg.verl_plugin.patches import job_queue

# arguments of ray.init that start a Ray; a running Ray rejects them
OF_A_NEW_RAY = ("num_cpus", "num_gpus", "include_dashboard", "dashboard_host", "dashboard_port")
# Servers of a local run listen on the loopback interface only. The address of Ray's node determines that of Ray's
# servers, TransferQueue's sockets, verl's vLLM server and the workers' rendezvous. Ray replaces a loopback address by
# the machine's, unless clusters are switched off (its default outside Linux). It reads the variable at import.
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "GLOO_SOCKET_IFNAME": "lo",  # gloo's default is the interface of the host name
}


def freeze(run: RunConfig, *, contents: bool = True) -> RunConfig:
    """Return the frozen configuration: absolute directories, the checkpoint to resume from, Ray's environment.

    Has no side effects; reads a checkpoint that may be resumed from. contents: whether to verify its checksums.
    """
    config = copy.deepcopy(run.config)
    for key in PATHS:
        if (path := run[key]) is not None:
            put(config, key, _local(key, path) if isinstance(path, str) else [_local(key, part) for part in path])
    trainer = config["trainer"]
    directory = os.path.abspath(os.path.expanduser(trainer["default_local_dir"]))
    trainer["default_local_dir"] = directory
    if trainer["validation_data_dir"] is None:  # `rpg table` computes intervals and pass@k from the samples
        trainer["validation_data_dir"] = os.path.join(directory, SAMPLES)
    choice = None
    if trainer["resume_mode"] == "auto":
        with contextlib.suppress(OSError):  # the check of the checkpoint reports it
            choice = newest_complete(Path(directory), contents=contents)
    if choice and choice.newest and not choice.verl_takes_it:  # verl follows its tracker and would load another or none
        trainer["resume_mode"] = "resume_path"
        trainer["resume_from_path"] = str(choice.newest)
    init = config["ray_kwargs"]["ray_init"]
    if os.environ.get("RAY_ADDRESS"):
        for key in OF_A_NEW_RAY:
            init.pop(key, None)
        if init.get("address") == "local":  # of an evaluated run
            del init["address"]
    else:
        init.setdefault("address", "local")  # also if another Ray runs on this machine
    init["runtime_env"] = {**(init.get("runtime_env") or {})}
    init["runtime_env"]["env_vars"] = environment(config, init["runtime_env"].get("env_vars") or {})
    return RunConfig(config, choice)


def _local(key: str, path: str) -> str:
    """Return a path without ~ and without a / at its end, as verl opens it; absolute, unless it may be a hub's name."""
    path = path.removeprefix("file://")
    if "://" in path or (key == EXTERNAL_LIB and not path.endswith(external.FILE)):  # an address, a module
        return path
    local = os.path.expanduser(path).rstrip("/") or path
    return local if key.startswith(MODEL) else os.path.abspath(local)


def environment(config: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    """Return the environment variables of the run's processes: those `given` by ray_init, and ours.

    Variables that are already set override rpg.env. Excludes the variables that Ray sets in a cluster job, because Ray
    rejects one that is set twice.
    """
    defaults = {**wandb_environment(config), **config["rpg"]["env"]}
    variables = given | {name: os.environ.get(name, str(value)) for name, value in defaults.items()}
    variables["VERL_FILE_LOGGER_PATH"] = os.path.join(config["trainer"]["default_local_dir"], METRICS)
    variables[job_queue.OWN] = "1"
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    of_job = job.get("runtime_env", {}).get("env_vars", {}) if os.environ.get("RAY_ADDRESS") else {}
    return {name: value for name, value in variables.items() if name not in of_job}


def wandb_environment(config: dict[str, Any]) -> dict[str, str]:
    """Return W&B's variables: files go to the run's directory; without a key W&B is offline."""
    if not logs_to(config["trainer"]["logger"], "wandb"):
        return {}
    from requests.utils import get_netrc_auth

    variables = {"WANDB_DIR": config["trainer"]["default_local_dir"]}
    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    has_key = os.environ.get("WANDB_API_KEY") or get_netrc_auth(server)  # `wandb login` writes ~/.netrc
    if "WANDB_MODE" not in {*os.environ, *config["rpg"]["env"]} and not has_key:
        variables["WANDB_MODE"] = "offline"
    return variables


def export(run: RunConfig) -> list[str]:
    """Set the run's variables in this process, whose children inherit them without Ray; return notes for the user."""
    offline = "WANDB_MODE" in wandb_environment(run.config)
    os.environ.update(run[f"{RAY}.runtime_env.env_vars"])
    if not run.cluster:
        for name, value in LOOPBACK.items():
            os.environ.setdefault(name, value)
    where = "no W&B key in WANDB_API_KEY or ~/.netrc"
    remedy = "W&B logs offline; `wandb login` before, or `wandb sync` after the run"
    return [f"warning: {where}: {remedy}"] if offline else []
