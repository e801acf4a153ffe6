"""Submit a run as a job of a Ray cluster, with this package in the runtime environment.

The nodes need verl and the packages of requirement.txt, but not this package: rpg/ travels with the job, and
VERL_USE_EXTERNAL_MODULES replaces the entry point of an installed package. Paths must be valid on every node.
"""

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from rpg.diagnostics import Refused
from rpg.registry.scripts import home
from rpg.run import signals
from rpg.run.processes import Children, exit_code
from rpg.run.signals import IN_JOB
from rpg.secrets import has_login, in_variables
from rpg.verl_plugin.version import ALLOW

PLUGIN = "rpg.verl_plugin.autoload"
PATHS = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE")
FORWARDED = (
    *PATHS, "NNODES", "GPU_MEMORY_GB", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE",
    "WANDB_MODE", "WANDB_BASE_URL", "GLOO_SOCKET_IFNAME", ALLOW,
)  # fmt: skip
# not forwarded, like URLs with a password, because the dashboard shows a job's environment
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")
LOGS = (sys.executable, "-m", "ray.scripts.scripts", "job", "logs", "--follow")  # of RAY_ADDRESS


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


def submit(run: str, command: list[str]) -> int:
    """Submit `python3 COMMAND...` as a job called run; show its log by `ray job logs` and return its exit code.

    A signal leaves the job running, and the same command follows it again. If a job of another command holds the run's
    directory, the lock rejects this job on the cluster. Raises Refused for a secret in the job's environment.
    """
    from ray.job_submission import JobStatus, JobSubmissionClient

    environment, address = runtime_env(), os.environ["RAY_ADDRESS"]
    if diagnostics := list(in_variables("the job's environment", environment["env_vars"])):
        raise Refused(diagnostics)
    if variables := withheld():
        print(
            f"warning: {', '.join(variables)}: not sent, as the dashboard shows a job's environment; if the run needs "
            "it, log in on every node (hf auth login, wandb login) or set it there before `ray start`",
            file=sys.stderr,
        )
    children, entrypoint = Children(), shlex.join(["python3", *command])
    try:
        client = JobSubmissionClient(address)
        running = _running(client, entrypoint, environment["env_vars"])
        job = running or client.submit_job(entrypoint=entrypoint, runtime_env=environment, metadata={"name": run})
        print(f"{run}: job {job} on {address}{', already running' if running else ''}", file=sys.stderr)
        with children.forwarding():
            while not (info := client.get_job_info(job)).status.is_terminal() and not children.stopped:
                children.start([*LOGS, job]).wait()  # again from the log's beginning if the connection is lost
    except Exception as error:  # noqa: BLE001 - Ray raises ConnectionError, RuntimeError and its own; all are shown
        print(
            f"error: RAY_ADDRESS={address}: {str(error).strip()}\nSet it to the dashboard's address, http://HEAD:8265; "
            "if the cluster has a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (docs/gpu.md)",
            file=sys.stderr,
        )
        return signals.REFUSED
    if children.stopped:
        with contextlib.suppress(OSError):  # after SIGHUP there is no terminal
            print(f"\nthe job continues; the same command follows it, `ray job stop {job}` stops it", file=sys.stderr)
        return signals.ENDS[children.stopped]
    print(f"job {job}: {info.status}: {info.message}", file=sys.stderr)
    return signals.DONE if info.status == JobStatus.SUCCEEDED else exit_code(info.driver_exit_code or signals.FAILED)


def _running(client: Any, entrypoint: str, variables: dict[str, str]) -> str | None:
    """Return the unfinished job of the same command with the same variables, as CKPTS_DIR and MODEL_PATH."""
    names = ("CKPTS_DIR", *FORWARDED)
    for job in client.list_jobs():
        of_job = (job.runtime_env or {}).get("env_vars", {})
        same = job.entrypoint == entrypoint and all(of_job.get(name) == variables.get(name) for name in names)
        if same and not job.status.is_terminal():
            return job.submission_id
    return None
