"""Freeze a run: what its configuration leaves to the place and the moment is settled once, before the checks.

Absolute directories, the checkpoint that the run goes on from, Ray's environment. Checks, fingerprint, the files of the
run and verl get this one configuration.
"""

import contextlib
import json
import os
from typing import Any

from rpg.checks import machine
from rpg.checks.check import Run
from rpg.launching.overrides import check_text
from rpg.verl_plugin.patches import job_queue

# of ray.init: these describe a Ray to be started, and are refused where one runs already
OF_A_NEW_RAY = ("num_cpus", "num_gpus", "include_dashboard", "dashboard_host", "dashboard_port")
# The servers of a Ray of the run's own listen on the loopback interface alone. The address of Ray's node decides for
# nearly everything: Ray's servers, TransferQueue's sockets, verl's vLLM server, the rendezvous of the workers. Ray
# replaces a loopback address that it is given by the machine's, but takes the loopback where clusters are switched off,
# its default on other systems than Linux. It reads the variable when it is imported.
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "GLOO_SOCKET_IFNAME": "lo",  # gloo would take the interface that the host's name stands for
}


def settle(asked: Run) -> Run:
    """The frozen run of a configuration that the schema accepts. Raises BadSetting for a directory's name.

    Nothing is written and no process changed; a checkpoint that may be resumed from is read.
    """
    config = asked.copy()
    trainer = config["trainer"]
    directory = os.path.abspath(os.path.expanduser(trainer["default_local_dir"]))
    check_text("trainer.default_local_dir", directory)
    trainer["default_local_dir"] = directory
    if trainer["validation_data_dir"] is None:  # `rpg table` takes intervals and pass@k from the samples
        trainer["validation_data_dir"] = os.path.join(directory, "validation")
    choice = None
    if trainer["resume_mode"] == "auto":
        with contextlib.suppress(OSError):  # the check of the checkpoint says so
            choice = Run(config).newest_checkpoint
    if choice and choice.found and not choice.verl_finds_it:  # verl, after its tracker, would take another or none
        trainer["resume_mode"] = "resume_path"
        trainer["resume_from_path"] = str(choice.found.directory)
    init = config["ray_kwargs"]["ray_init"]
    if os.environ.get("RAY_ADDRESS"):
        for key in OF_A_NEW_RAY:
            init.pop(key, None)
    else:
        init["address"] = "local"  # also where somebody else's Ray runs on this machine
    init["runtime_env"] = {**(init.get("runtime_env") or {})}
    init["runtime_env"]["env_vars"] = {**(init["runtime_env"].get("env_vars") or {}), **environment(config)}
    return Run(config, choice)


def environment(config: dict[str, Any]) -> dict[str, str]:
    """Environment variables for every process of the run. One of rpg.env that is set already was set by hand, and wins.

    Without those that a cluster's job has from Ray, which refuses a variable that it is given twice.
    """
    asked = {**config["rpg"]["env"], **wandb_environment(config)}
    variables = {name: os.environ.get(name, str(value)) for name, value in asked.items()}
    variables["VERL_FILE_LOGGER_PATH"] = os.path.join(config["trainer"]["default_local_dir"], "metrics.jsonl")
    variables[job_queue.OWN] = "1"
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    given = job.get("runtime_env", {}).get("env_vars", {}) if os.environ.get("RAY_ADDRESS") else {}
    return {name: value for name, value in variables.items() if name not in given}


def wandb_environment(config: dict[str, Any]) -> dict[str, str]:
    """W&B's files go to the run's directory; without a key it stays offline, where it would ask and wait."""
    if "wandb" not in config["trainer"]["logger"]:
        return {}
    variables = {"WANDB_DIR": config["trainer"]["default_local_dir"]}
    if "WANDB_MODE" in os.environ or machine.missing_wandb_key() is None:
        return variables
    return {**variables, "WANDB_MODE": "offline"}  # pre-flight has said so


def export(run: Run) -> None:
    """Put the run's variables into this process, whose children have them without Ray."""
    os.environ.update(run.get("ray_kwargs.ray_init.runtime_env.env_vars"))
    if not run.cluster:
        for name, value in LOOPBACK.items():
            os.environ.setdefault(name, value)
