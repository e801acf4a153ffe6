"""Submit a run as a job of a Ray cluster by `ray job submit`, with this package in the runtime environment.

The nodes need verl and the packages of requirement.txt, but not this package: rpg/ travels with the job, and
VERL_USE_EXTERNAL_MODULES replaces the entry point of an installed package. Paths must be valid on every node.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from rpg.config.run_config import RunConfig
from rpg.diagnostics import UserError
from rpg.registry.scripts import home
from rpg.secrets import has_login

IN_JOB = "RPG_IN_JOB"  # set in a job's environment, where Ray sets RAY_ADDRESS as well
PLUGIN = "rpg.verl_plugin.autoload"
PATHS = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE")
FORWARDED = (
    *PATHS, "NNODES", "GPU_MEMORY_GB", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE",
    "WANDB_MODE", "WANDB_BASE_URL", "GLOO_SOCKET_IFNAME",
)  # fmt: skip
# not forwarded, like URLs with a password, because the dashboard shows a job's environment
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")


def to_cluster() -> bool:
    """Return whether RAY_ADDRESS names a cluster and this process is not already a job on it."""
    return bool(os.environ.get("RAY_ADDRESS")) and IN_JOB not in os.environ


def withheld() -> list[str]:
    """Return the variables that a job would use but that are not forwarded, because they hold a secret."""
    urls = [name for name in FORWARDED if has_login(os.environ.get(name, ""))]
    return [name for name in SECRETS if os.environ.get(name)] + urls


def runtime_env() -> dict[str, Any]:
    """Return the job's runtime environment: package, registration of the plugin, variables of this environment."""
    plugins = [name for name in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",") if name and name != PLUGIN]
    names = [*FORWARDED, *sorted(name for name in os.environ if name.startswith("NCCL_"))]
    return {
        "py_modules": [str(Path(__file__).parents[1])],
        "excludes": ["__pycache__"],
        "env_vars": {
            IN_JOB: "1",
            "RPG_HOME": str(home()),
            "CKPTS_DIR": os.path.abspath(os.environ.get("CKPTS_DIR", "checkpoints")),
            "VERL_USE_EXTERNAL_MODULES": ",".join([*plugins, PLUGIN]),
            **{name: os.environ[name] for name in names if name in os.environ and name not in withheld()},
            **{name: os.path.abspath(path) for name in PATHS if os.path.exists(path := os.environ.get(name, ""))},
        },
    }


def job_of(run: RunConfig, address: str) -> str:
    """Return the job's id: the run's name, with a number after the run's earlier jobs have ended.

    That of the run's directory is added if it differs, as an evaluation's does. Raises UserError without a cluster.
    """
    from ray.job_submission import JobSubmissionClient

    name = re.sub(r"[^\w.,=+-]", "_", "-".join(dict.fromkeys([run.name, run.directory.name])))
    try:
        jobs = JobSubmissionClient(address).list_jobs()
    except (ConnectionError, RuntimeError) as error:
        raise UserError(f"RAY_ADDRESS={address}: {error}; set it to the dashboard's, http://HEAD:8265") from error
    ids = {job.submission_id: job.status.is_terminal() for job in jobs}
    number = 1
    while ids.get(job := name if number == 1 else f"{name}.{number}"):
        number += 1
    return job


def submit(run: RunConfig, command: list[str]) -> NoReturn:
    """Become `ray job submit` of `python3 COMMAND...`: it shows the job's log to the end; exit code 0, or 1.

    Ray refuses a second job of an id, so that a run has one at a time. A signal leaves the job running.
    """
    environment, address = runtime_env(), os.environ["RAY_ADDRESS"]
    if variables := withheld():
        print(
            f"warning: {', '.join(variables)}: not sent, as the dashboard shows a job's environment; if the run needs "
            "it, log in on every node (hf auth login, wandb login) or set it there before `ray start`",
            file=sys.stderr,
        )
    job = job_of(run, address)
    print(f"`ray job logs -f {job}` follows the job, `ray job stop {job}` stops it", file=sys.stderr, flush=True)
    options = ["--address", address, "--submission-id", job, "--runtime-env-json", json.dumps(environment)]
    ray = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", *options]
    os.execv(sys.executable, [*ray, "--", "python3", *command])
