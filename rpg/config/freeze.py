"""Freeze the configuration before the checks: absolute directories, the checkpoint to resume from, Ray's environment.

Checks, fingerprint, the run's files and verl all use this configuration.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from rpg.config import machine, types
from rpg.config.check import Refused
from rpg.config.overrides import check_text
from rpg.config.run_config import RunConfig
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

    Raises:
        Refused: types or ranges are wrong. BadSetting: the directory's name cannot be in a configuration.
    """
    if errors := list(types.types(run)):
        raise Refused(errors)
    config = run.copy()
    trainer = config["trainer"]
    directory = os.path.abspath(os.path.expanduser(trainer["default_local_dir"]))
    check_text("trainer.default_local_dir", directory)
    trainer["default_local_dir"] = directory
    if trainer["validation_data_dir"] is None:  # `rpg table` computes intervals and pass@k from the samples
        trainer["validation_data_dir"] = os.path.join(directory, "validation")
    choice = None
    if trainer["resume_mode"] == "auto":
        with contextlib.suppress(OSError):  # the check of the checkpoint reports it
            choice = newest_complete(Path(directory), contents=contents)
    if choice and choice.newest and not choice.verl_takes_it:  # verl follows its tracker and would load another or none
        trainer["resume_mode"] = "resume_path"
        trainer["resume_from_path"] = str(choice.newest.directory)
    init = config["ray_kwargs"]["ray_init"]
    if os.environ.get("RAY_ADDRESS"):
        for key in OF_A_NEW_RAY:
            init.pop(key, None)
    else:
        init["address"] = "local"  # also if another Ray runs on this machine
    init["runtime_env"] = {**(init.get("runtime_env") or {})}
    init["runtime_env"]["env_vars"] = {**(init["runtime_env"].get("env_vars") or {}), **environment(config)}
    return RunConfig(config, choice, run.notes)


def environment(config: dict[str, Any]) -> dict[str, str]:
    """Return the environment variables of the run's processes. Variables that are already set override rpg.env.

    Excludes the variables that Ray sets in a cluster job, because Ray rejects one that is set twice.
    """
    defaults = {**config["rpg"]["env"], **wandb_environment(config)}
    variables = {name: os.environ.get(name, str(value)) for name, value in defaults.items()}
    variables["VERL_FILE_LOGGER_PATH"] = os.path.join(config["trainer"]["default_local_dir"], "metrics.jsonl")
    variables[job_queue.OWN] = "1"
    if libraries := config["rpg"]["external_lib"]:
        variables[external.VARIABLE] = json.dumps(libraries)
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    of_job = job.get("runtime_env", {}).get("env_vars", {}) if os.environ.get("RAY_ADDRESS") else {}
    return {name: value for name, value in variables.items() if name not in of_job}


def wandb_environment(config: dict[str, Any]) -> dict[str, str]:
    """Return W&B's variables: files go to the run's directory; without a key W&B is offline."""
    if not machine.logs_to_wandb(config["trainer"]["logger"]):
        return {}
    variables = {"WANDB_DIR": config["trainer"]["default_local_dir"]}
    if "WANDB_MODE" not in os.environ and not machine.has_wandb_key():  # the preflight warns
        variables["WANDB_MODE"] = "offline"
    return variables


def export(run: RunConfig) -> None:
    """Set the run's variables in this process; its children inherit them without Ray."""
    os.environ.update(run.get("ray_kwargs.ray_init.runtime_env.env_vars"))
    if not run.cluster:
        for name, value in LOOPBACK.items():
            os.environ.setdefault(name, value)
