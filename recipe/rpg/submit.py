"""Run on a Ray cluster: `ray job submit` of main_rpg, with this checkout's packages in the runtime environment.

The nodes need verl and the packages of requirement.txt, not ours: rpg/ and recipe/ travel with the job, and
VERL_USE_EXTERNAL_MODULES stands for the entry point that an installed package would have. Paths mean the same
on every node: files on a shared file system, or at the same place everywhere.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

from recipe.rpg import signals
from recipe.rpg.exit_codes import DONE, FAILED, INTERRUPTED, REFUSED
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
PAUSE = 5.0  # seconds before a lost log is taken up again, and a cluster that gave no answer is asked again
ANSWER_LIMIT = 300.0  # seconds; a head that is restarted is back by then
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


class NoAnswer(Exception):
    """The cluster does not say how a job is."""


class OtherSettings(Exception):
    """The same command's job goes on, with another environment."""


class Ended(SystemExit):
    """SIGTERM or SIGHUP while a job is followed. asyncio swallows other exceptions in some of its callbacks."""

    def __init__(self, number: int):
        self.exit_code = signals.ANSWERS[signal.Signals(number)][1]
        super().__init__(self.exit_code)


def submit(name: str, overrides: list[str]) -> int:
    """Submit the run called name, show its log until it ends, and return its exit code.

    Where the same command's job is still going on, as after Ctrl-C, that one is followed, or refused if its
    settings in the environment are others.
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
        job = _going_on(client, entrypoint, environment["env_vars"])
        followed = job is not None
        if job is None:
            job = _submitted(client, entrypoint=entrypoint, runtime_env=environment, metadata={"name": name})
    except OtherSettings as error:
        print(f"error: RAY_ADDRESS={address}: {error}", file=sys.stderr)
        return REFUSED
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
    signals.raise_on_end(_end)
    going_on = ", which goes on since an earlier start" if followed else ""
    ways = f"the same command, or ray job logs --follow {job}, shows it; ray job stop {job} ends it"
    try:
        print(f"{name}: job {job} on {address}{going_on}", file=sys.stderr)
        info = _follow(client, job)
    except (KeyboardInterrupt, Ended) as end:
        with contextlib.suppress(OSError):  # the terminal has gone, as SIGHUP says
            print(f"\nthe job goes on; {ways}", file=sys.stderr)
        return end.exit_code if isinstance(end, Ended) else INTERRUPTED
    except NoAnswer as error:
        print(
            f"error: RAY_ADDRESS={address}: job {job}: the cluster did not say for {ANSWER_LIMIT:.0f} s how it is: "
            f"{error}\n"
            f"The job may go on; once the cluster answers, {ways}",
            file=sys.stderr,
        )
        return FAILED
    print(f"job {job}: {info.status}: {info.message}", file=sys.stderr)
    return DONE if info.status == JobStatus.SUCCEEDED else info.driver_exit_code or FAILED


def _end(number: int, frame: object) -> None:
    raise Ended(number)


def _going_on(client: Any, entrypoint: str, environment: dict[str, str]) -> str | None:
    """The unfinished job of the same command, overrides and parent of run directories; None where there is none.

    Raises OtherSettings where that job has another value of a variable of FORWARDED. NCCL's are no settings of a run.
    """
    for job in client.list_jobs():
        its = (job.runtime_env or {}).get("env_vars", {})
        same = job.entrypoint == entrypoint and its.get("CKPTS_DIR") == environment["CKPTS_DIR"]
        if not same or job.status.is_terminal():
            continue
        others = [
            f"{name} is {_told(its.get(name))} there and {_told(environment.get(name))} here"
            for name in FORWARDED
            if its.get(name) != environment.get(name)
        ]
        if others:
            raise OtherSettings(
                f"job {job.submission_id} of the same command and CKPTS_DIR goes on with other settings: "
                f"{'; '.join(others)}. To follow it, give the values that it has; to replace it, `ray job stop "
                f"{job.submission_id}`; to run beside it, set another CKPTS_DIR or trainer.experiment_name"
            )
        return job.submission_id
    return None


def _told(value: str | None) -> str:
    return "not set" if value is None else repr(value)


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


def _follow(client: Any, job: str) -> Any:
    """Show the job's log to its end, over lost connections; what Ray says of the job then.

    Raises NoAnswer where the cluster cannot be asked for it.
    """
    shown, told, over = 0, False, False
    while True:
        before = shown
        # a loop for each connection: in one, asyncio would keep a Ctrl-C back while the cluster is asked
        shown, lost = asyncio.run(_show(client, job, shown))
        info = _asked(client, job)
        if info.status.is_terminal() and (over or lost is None):
            return info
        told = told and shown == before
        if not told:
            reason = "it was closed" if lost is None else f"{type(lost).__name__}: {lost}"
            print(f"note: job {job}: lost the connection to its log ({reason}); taking it up again", file=sys.stderr)
            told = True
        over = info.status.is_terminal()  # what it wrote last is still to be shown, if that can be had
        time.sleep(PAUSE)


async def _show(client: Any, job: str, shown: int) -> tuple[int, Exception | None]:
    """Print the log without its first characters, shown in number; how many are shown then, and what ended it."""
    import aiohttp

    log, read = client.tail_job_logs(job), 0
    while True:
        try:
            text = await anext(log)
        except StopAsyncIteration:
            return shown, None
        except (RuntimeError, OSError, aiohttp.ClientError) as error:  # the first is Ray's
            return shown, error
        print(text[max(0, shown - read) :], end="", flush=True)  # each connection begins at the log's start
        read += len(text)
        shown = max(shown, read)


def _asked(client: Any, job: str) -> Any:
    """What Ray says of the job. Raises NoAnswer after ANSWER_LIMIT seconds without an answer."""
    from ray.exceptions import RayError

    began, told = time.monotonic(), False
    while True:
        try:
            return client.get_job_info(job)
        except (RuntimeError, OSError, RayError) as error:  # Ray's refusals, those of requests, a token's
            if time.monotonic() - began > ANSWER_LIMIT:
                raise NoAnswer(str(error).strip()) from error
            if not told:
                said = f"the cluster does not say how it is ({str(error).strip()})"
                print(f"note: job {job}: {said}; asking again for {ANSWER_LIMIT:.0f} s", file=sys.stderr)
                told = True
        time.sleep(PAUSE)
