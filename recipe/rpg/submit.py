"""Run on a Ray cluster: `ray job submit` of main_rpg, with this checkout's packages in the runtime environment.

The nodes need verl and the packages of requirement.txt, not ours: rpg/ and recipe/ travel with the job, and
VERL_USE_EXTERNAL_MODULES stands for the entry point that an installed package would have. Paths mean the same
on every node: files on a shared file system, or at the same place everywhere.
"""

import asyncio
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from recipe.rpg import signals
from recipe.rpg.exit_codes import INTERRUPTED, REFUSED
from rpg.launching.secrets import has_login
from rpg.verl_plugin.version import ALLOW

IN_JOB = "RPG_IN_JOB"  # set in the job's environment, where Ray sets RAY_ADDRESS as well
PLUGIN = "rpg.verl_plugin.autoload"
FORWARDED = (
    "MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "NNODES", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE",
    "WANDB_MODE", "WANDB_BASE_URL", "GLOO_SOCKET_IFNAME", ALLOW,
)  # fmt: skip
FORWARDED_FAMILY = "NCCL_"  # all variables that begin so
# The dashboard shows a job's environment to all its users, so these stay here; and so does a URL with a password in it.
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")
# A head that was just started has no agent for jobs, and Ray then says so, in a RuntimeError as all its refusals are.
NO_AGENT = "No available agent to submit job"
AGENT_LIMIT = 60.0  # seconds; each try takes the 10 that Ray itself waits
HOME = Path(__file__).resolve().parents[2]


def wanted() -> bool:
    """Whether RAY_ADDRESS names a cluster and this process is not already a job on it."""
    return bool(os.environ.get("RAY_ADDRESS")) and IN_JOB not in os.environ


def forwarded() -> dict[str, str]:
    """The variables of this environment that a job is given."""
    names = [*FORWARDED, *(name for name in sorted(os.environ) if name.startswith(FORWARDED_FAMILY))]
    return {name: os.environ[name] for name in names if name in os.environ and name not in withheld()}


def withheld() -> list[str]:
    """The variables of this environment that a job would want, and that would be shown to others with it."""
    urls = [name for name in FORWARDED if has_login(os.environ.get(name, ""))]
    return [name for name in SECRETS if os.environ.get(name)] + urls


def runtime_env() -> dict[str, Any]:
    """What the job brings along: the packages, the plugin's registration, and `forwarded`."""
    plugins = [name for name in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",") if name and name != PLUGIN]
    return {
        "py_modules": [str(HOME / "rpg"), str(HOME / "recipe")],
        "excludes": ["__pycache__"],
        "env_vars": {
            IN_JOB: "1",
            "RPG_HOME": os.environ.get("RPG_HOME", str(HOME)),
            "CKPTS_DIR": os.path.abspath(os.environ.get("CKPTS_DIR", "checkpoints")),
            "VERL_USE_EXTERNAL_MODULES": ",".join([*plugins, PLUGIN]),
            **forwarded(),
        },
    }


class NoAgent(Exception):
    """The cluster's head takes no jobs."""


def submit(name: str, overrides: list[str]) -> int:
    """Submit the run called name, show its log until it ends, and return its exit code.

    Where the same command's job is still going on, as after Ctrl-C, that one is followed.
    """
    from ray.job_submission import JobStatus, JobSubmissionClient

    address = os.environ["RAY_ADDRESS"]
    entrypoint = shlex.join(["python3", "-m", "recipe.rpg", *overrides])
    if kept := withheld():
        print(
            f"warning: {', '.join(kept)}: not given to the job, as the dashboard shows a job's environment; where the "
            "run needs it, log in on every node (hf auth login, wandb login) or set it there before `ray start`",
            file=sys.stderr,
        )
    try:
        client = JobSubmissionClient(address)
        environment = runtime_env()
        job = _going_on(client, entrypoint, environment["env_vars"]["CKPTS_DIR"])
        followed = job is not None
        if job is None:
            job = _submitted(client, entrypoint=entrypoint, runtime_env=environment, metadata={"name": name})
    except NoAgent:
        print(
            f"error: RAY_ADDRESS={address}: after {AGENT_LIMIT:.0f} s the cluster's head has no agent that takes jobs. "
            "Another Ray on that node may hold the agent's port, 52365: end it, or start this one with "
            "`ray start --head --dashboard-agent-listen-port=PORT`. The head's dashboard_agent.log, in "
            "/tmp/ray/session_latest/logs, says which",
            file=sys.stderr,
        )
        return REFUSED
    except Exception as error:  # noqa: BLE001 - Ray raises ConnectionError, RuntimeError and its own; all are told
        print(
            f"error: RAY_ADDRESS={address}: {str(error).strip()}\nGive the dashboard's address, as http://HEAD:8265; "
            "a cluster of Ray 2.60 also wants RAY_AUTH_MODE=token and its token (recipe/rpg/README.md)",
            file=sys.stderr,
        )
        return REFUSED
    signals.raise_on_ctrl_c()
    going_on = ", which goes on since an earlier start" if followed else ""
    print(f"{name}: job {job} on {address}{going_on}", file=sys.stderr)
    try:
        asyncio.run(_follow(client, job))
    except KeyboardInterrupt:
        ways = f"the same command, or ray job logs --follow {job}, shows it; ray job stop {job} ends it"
        print(f"\nthe job goes on; {ways}", file=sys.stderr)
        return INTERRUPTED
    info = client.get_job_info(job)
    print(f"job {job}: {info.status}: {info.message}", file=sys.stderr)
    return 0 if info.status == JobStatus.SUCCEEDED else info.driver_exit_code or 1


def _going_on(client: Any, entrypoint: str, parent: str) -> str | None:
    """The unfinished job of the same command, overrides and parent of run directories; None where there is none."""
    for job in client.list_jobs():
        variables = (job.runtime_env or {}).get("env_vars", {})
        if job.entrypoint == entrypoint and variables.get("CKPTS_DIR") == parent and not job.status.is_terminal():
            return job.submission_id
    return None


def _submitted(client: Any, **job: Any) -> str:
    """The job's id. Waits AGENT_LIMIT seconds for an agent and then raises NoAgent; other refusals are Ray's."""
    began = time.monotonic()
    while True:
        try:
            return client.submit_job(**job)
        except RuntimeError as error:
            if NO_AGENT not in str(error):
                raise
            waited = time.monotonic() - began
            if waited > AGENT_LIMIT:
                raise NoAgent from error
        print(f"note: the cluster's head does not take jobs yet; {waited:.0f} of {AGENT_LIMIT:.0f} s", file=sys.stderr)
        time.sleep(1)


async def _follow(client: Any, job: str) -> None:
    async for text in client.tail_job_logs(job):
        print(text, end="", flush=True)
