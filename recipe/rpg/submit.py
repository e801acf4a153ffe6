"""Run on a Ray cluster: `ray job submit` of main_rpg, with this checkout's packages in the runtime environment.

The nodes need verl and the packages of requirement.txt, not ours: rpg/ and recipe/ travel with the job, and
VERL_USE_EXTERNAL_MODULES stands for the entry point that an installed package would have. Paths mean the same
on every node: files on a shared file system, or at the same place everywhere.
"""

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from recipe.rpg import signals
from recipe.rpg.exit_codes import INTERRUPTED, REFUSED
from rpg.verl_plugin.version import ALLOW

IN_JOB = "RPG_IN_JOB"  # set in the job's environment, where Ray sets RAY_ADDRESS as well
PLUGIN = "rpg.verl_plugin.autoload"
FORWARDED = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "NNODES", "HF_HOME", "WANDB_MODE", "WANDB_BASE_URL", ALLOW)
HOME = Path(__file__).resolve().parents[2]


def wanted() -> bool:
    """Whether RAY_ADDRESS names a cluster and this process is not already a job on it."""
    return bool(os.environ.get("RAY_ADDRESS")) and IN_JOB not in os.environ


def runtime_env() -> dict[str, Any]:
    """What the job brings along. Keys are not among it: the dashboard shows a job's environment to its users."""
    plugins = [name for name in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",") if name and name != PLUGIN]
    return {
        "py_modules": [str(HOME / "rpg"), str(HOME / "recipe")],
        "excludes": ["__pycache__"],
        "env_vars": {
            IN_JOB: "1",
            "RPG_HOME": os.environ.get("RPG_HOME", str(HOME)),
            "CKPTS_DIR": os.path.abspath(os.environ.get("CKPTS_DIR", "checkpoints")),
            "VERL_USE_EXTERNAL_MODULES": ",".join([*plugins, PLUGIN]),
            **{name: os.environ[name] for name in FORWARDED if name in os.environ},
        },
    }


def submit(name: str, overrides: list[str]) -> int:
    """Submit the run called name, show its log until it ends, and return its exit code."""
    from ray.job_submission import JobStatus, JobSubmissionClient

    address = os.environ["RAY_ADDRESS"]
    entrypoint = shlex.join(["python3", "-m", "recipe.rpg", *overrides])
    try:
        client = JobSubmissionClient(address)
        job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env(), metadata={"name": name})
    except Exception as error:  # noqa: BLE001 - Ray raises ConnectionError, RuntimeError and its own; all are told
        print(
            f"error: RAY_ADDRESS={address}: {str(error).strip()}\nGive the dashboard's address, as http://HEAD:8265; "
            "a cluster of Ray 2.60 also wants RAY_AUTH_MODE=token and its token (recipe/rpg/README.md)",
            file=sys.stderr,
        )
        return REFUSED
    signals.raise_on_ctrl_c()
    print(f"{name}: job {job} on {address}", file=sys.stderr)
    try:
        asyncio.run(_follow(client, job))
    except KeyboardInterrupt:
        print(f"\nthe job goes on; ray job logs --follow {job} shows it, ray job stop {job} ends it", file=sys.stderr)
        return INTERRUPTED
    info = client.get_job_info(job)
    print(f"job {job}: {info.status}: {info.message}", file=sys.stderr)
    return 0 if info.status == JobStatus.SUCCEEDED else info.driver_exit_code or 1


async def _follow(client: Any, job: str) -> None:
    async for text in client.tail_job_logs(job):
        print(text, end="", flush=True)
