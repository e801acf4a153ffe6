"""A run's directory: held by one process; config.yaml, environment.json, metrics.jsonl beside verl's checkpoints."""

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpg.checks import fingerprint
from rpg.checks.check import Diagnostic, Refused, Run
from rpg.checks.secrets import without_login
from rpg.files.integrity import TRACKER
from rpg.files.lock import RUN, Held, take
from rpg.files.whole import LEFT_OUT, SKIPPED, write_whole
from rpg.methods.names import JUDGE

WAYS = "wait for it, end it, or give this run another directory (CKPTS_DIR, trainer.experiment_name)"
PACKAGES = [
    "rpg-verl",
    "verl",
    "torch",
    "vllm",
    "ray",
    "transformers",
    "flash-attn",
    "tensordict",
    "TransferQueue",
    "schedulefree",
    "pandas",
    "pyarrow",
    "hydra-core",
    "wandb",
    "math-verify",
    "numpy",
]


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a run's directory, which is made where it is not there, until this process leaves or dies.

    A run that is refused inside this context leaves no directory behind that it made.

    Raises:
        Refused: another process holds it; says which. Or it cannot be made, or not be written into.
    """
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    file = directory / RUN
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = take(file)
    except Held as other:
        raise Refused([Diagnostic("trainer.default_local_dir", str(directory), str(other), WAYS)]) from None
    except OSError as error:
        wrong = f"cannot be made or written into ({error.strerror}: {error.filename})"
        found = Diagnostic("trainer.default_local_dir", str(directory), wrong, "set CKPTS_DIR elsewhere")
        raise Refused([found]) from None
    try:
        yield
    except Refused:
        if new:
            file.unlink()
        for folder in new:
            with contextlib.suppress(OSError):  # somebody has put something there
                folder.rmdir()
        raise
    finally:
        os.close(descriptor)


def prepare(run: Run, changed: dict[str, tuple[Any, Any]]) -> Path:
    """The run's directory with config.yaml, environment.json, fingerprint and history, its metrics up to the resume.

    changed: settings that differ from those of the run that is resumed. A run that is told not to resume puts the
    earlier one's metrics and checkpoints aside under their date.

    Raises OSError, which names the file, where the disk is full or cannot be written to.
    """
    directory = Path(run.get("trainer.default_local_dir"))
    step = resumed_step(run)
    write_whole(directory / "config.yaml", run.yaml())
    write_whole(directory / "environment.json", json.dumps(environment(run), indent=2) + "\n")
    fingerprint.record(directory, run, step, changed)
    metrics = directory / "metrics.jsonl"
    if run.get("trainer.resume_mode") == "disable":
        put_aside(directory)
    elif metrics.is_file():
        cut_metrics(metrics, step)
    return directory


def put_aside(directory: Path) -> None:
    """Keep what an earlier run in the directory has logged and saved, under the date of its last sign of life.

    Its checkpoints would be gone on from, should the new run be killed before it has saved one of its own.
    """
    metrics, tracker = directory / "metrics.jsonl", directory / TRACKER
    logs = [directory / "metrics.previous.jsonl", metrics, directory / LEFT_OUT, directory / SKIPPED]
    saved = sorted(directory.glob("global_step_*"))
    dates = [file.stat().st_mtime for file in (metrics, tracker, *saved) if file.exists()]
    if not dates:
        return
    when = time.strftime("%Y%m%d-%H%M%S", time.localtime(max(dates)))
    for log in logs:
        if log.is_file():
            log.rename(directory / f"{log.stem}.until-{when}.jsonl")
    if saved or tracker.is_file():
        aside = directory / f"checkpoints.until-{when}"
        aside.mkdir(exist_ok=True)
        for found in (*saved, tracker):
            if found.exists():
                found.rename(aside / found.name)
        print(f"note: {len(saved)} checkpoints of the earlier run are in {aside}", file=sys.stderr)


def resumed_step(run: Run) -> int:
    """The step of the checkpoint that verl will load; 0 where it loads none."""
    mode = run.get("trainer.resume_mode")
    if mode == "resume_path":
        return int(run.get("trainer.resume_from_path").rpartition("global_step_")[2])
    tracker = Path(run.get("trainer.default_local_dir")) / TRACKER
    return int(tracker.read_text()) if mode == "auto" and tracker.is_file() else 0


def cut_metrics(metrics: Path, step: int) -> None:
    """Leave the records up to a step: those after it will be made again, and a torn line is nobody's.

    Says what went. Raises OSError as write_whole does.
    """
    kept, later, torn = [], [], 0
    for line in metrics.read_bytes().splitlines(keepends=True):
        try:
            found = json.loads(line)["step"] if line.endswith(b"\n") else None
        except (ValueError, KeyError, TypeError):
            found = None
        if found is None:
            torn += 1
        elif found > step:
            later.append(found)
        else:
            kept.append(line)
    if not later and not torn:
        return
    write_whole(metrics, b"".join(kept))
    if later:
        said = f"steps {later[0]} to {later[-1]}" if len(later) > 1 else f"step {later[0]}"
        print(f"note: {metrics.name} had {said}, after the checkpoint of step {step}: made again", file=sys.stderr)
    if torn:
        print(f"note: {metrics.name} had {torn} torn lines, which are left out", file=sys.stderr)


def environment(run: Run) -> dict[str, Any]:
    """Versions, git commit, devices, and which judge: what one has to know to repeat a run.

    The judge is null where the run has a reward function of somebody else's.
    """
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host_cpus": os.cpu_count(),
        "devices": _devices(),
        "judge": run.get(JUDGE),
        "ray_address": without_login(os.environ.get("RAY_ADDRESS", "local")),
        "git_commit": _git_commit(),
        "versions": versions,
    }


def _devices() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] or ["cpu"]


def _git_commit() -> str | None:
    """Commit of the checkout that this file is in, with "+" where it has changes; None outside a checkout."""
    if shutil.which("git") is None:
        return None
    git = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return None
    changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changes.stdout else "")
