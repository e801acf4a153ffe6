"""A run's directory: its lock, config.yaml, environment.json and metrics.jsonl besides verl's checkpoints."""

import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from rpg.config import fingerprint
from rpg.config.keys import KEYS, ROWS, by_name
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Diagnostic, Refused
from rpg.dotted import value_at
from rpg.files.atomic import CONFIG, ENVIRONMENT, FINGERPRINT, LEFT_OUT, METRICS, SAMPLES, SKIPPED, write_whole
from rpg.files.integrity import STEP, TRACKER, steps
from rpg.files.lock import RUN, Held, take
from rpg.gpu_host import visible
from rpg.names import ACCURACY
from rpg.registry import recipe
from rpg.registry.labels import method_of
from rpg.run.processes import brief
from rpg.secrets import without_login

PACKAGES = (
    "rpg-verl", "verl", "torch", "vllm", "ray", "transformers", "flash-attn", "tensordict", "TransferQueue",
    "schedulefree", "pandas", "pyarrow", "hydra-core", "wandb", "math-verify", "numpy",
)  # fmt: skip


class NotWritten(Exception):
    """The disk is full or read-only; the message names the file."""


@contextlib.contextmanager
def held(run: RunConfig) -> Iterator[None]:
    """Lock the run's directory, reject another training in it, and prepare it for the run.

    Writes config.yaml, environment.json, fingerprint and history, and cuts the log to the checkpoint. Without one, or
    with trainer.resume_mode=disable, log and checkpoints of an earlier run are moved aside.

    Raises:
        Refused: another process holds it, it cannot be created or written to, it holds another training, or a training
            and the run only validates.
        NotWritten: the disk is full or read-only.
    """
    with locked(run.directory):
        refuse_validation(run)
        prepare(run, fingerprint.refuse_another(run.directory, run))
        yield


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Create and lock a run's directory until this process leaves the context or dies.

    A run that is rejected inside this context removes the directories that it created.

    Raises:
        Refused: another process holds it, or it cannot be created or written to.
    """
    new = [folder for folder in (directory, *directory.parents) if not os.path.exists(folder)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = take(directory / RUN)
    except (Held, OSError) as error:
        message, remedy = f"cannot be created or written to ({error})", "set CKPTS_DIR elsewhere"
        if isinstance(error, Held):
            message = str(error)
            remedy = "wait for it, stop it, or use another directory (CKPTS_DIR, trainer.experiment_name)"
        raise Refused([Diagnostic(KEYS["directory"], str(directory), message, remedy)]) from None
    try:
        yield
    except Refused:
        if new:
            (directory / RUN).unlink()
        for folder in new:
            with contextlib.suppress(OSError):  # the directory is no longer empty
                folder.rmdir()
        raise
    finally:
        lock.release()


def refuse_validation(run: RunConfig) -> None:
    """Raise Refused if the run only validates and its directory holds a training, whose files it would rewrite."""
    file = run.directory / CONFIG
    if run.settings.val_only and file.is_file() and not OmegaConf.select(OmegaConf.load(file), KEYS["val_only"]):
        message = f"would rewrite configuration and log of the training in {run.directory}"
        remedy = f"validate by `rpg eval NAME --checkpoint DIRECTORY`, or set another {KEYS['directory']}"
        raise Refused([run.settings.error("val_only", message, remedy)])


def finished(run: RunConfig) -> str | None:
    """Return a message if the directory holds the run's last step, so that nothing is left to train.

    Raises Refused if it is the last step of another training.
    """
    s, step = run.settings, resumed_step(run)
    if (total := s.steps) is None or step < total or s.val_only:
        return None
    if 0 < last_step(run.directory / METRICS) < total and s.val_before_train:
        return None  # killed in its last validation, which verl repeats
    fingerprint.refuse_another(run.directory, run)
    return (
        f"finished at step {step} of {total}: {brief(run.directory)}\n"
        f"raise {KEYS['steps']} to go on; {KEYS['resume_mode']}=disable begins again"
    )


def prepare(run: RunConfig, changed: dict[str, tuple[Any, Any]]) -> None:
    """Write the run's files and cut or move what is there; changed: settings that differ from the resumed run's.

    Raises NotWritten.
    """
    directory, step, made_with = run.directory, resumed_step(run), environment(run)
    metrics = directory / METRICS
    changed = changed | (other_validation(run, made_with) if step else {})
    try:
        if run.settings.resume_mode == "disable" or (step == 0 and last_step(metrics) > 0):
            put_aside(directory)
        else:
            for log in (metrics, directory / LEFT_OUT, directory / SKIPPED):
                cut(log, step)
            if run.settings.resume_mode == "resume_path" and not run.resumes_by_choice:
                abandon(directory, step)
        write_whole(directory / CONFIG, run.yaml())
        write_whole(directory / ENVIRONMENT, json.dumps(made_with, indent=2) + "\n")
        of_start = {key: made_with[key] for key in ("git_commit", "versions")}
        fingerprint.record(directory, run, step, changed, **of_start)
    except OSError as error:
        raise NotWritten(f"{error.filename}: {error.strerror}") from error


def other_validation(run: RunConfig, made_with: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what the accuracies before a resume were measured by and those after it are not: key -> (before, now).

    made_with: `environment` of the run. Validation may change on a resume: the fingerprint does not have it.
    """
    try:
        before = yaml.safe_load((run.directory / CONFIG).read_bytes())
        recorded = json.loads((run.directory / ENVIRONMENT).read_bytes())
        pairs = {
            row.key: (value_at(before, row.key), run.get(row.key)) for row in ROWS.values() if ACCURACY in row.measures
        }
        content = fingerprint.CONTENT.format(KEYS["val_files"])
        pairs |= {content: (recorded[content], made_with[content])} if content in recorded else {}
    except (OSError, ValueError, yaml.YAMLError):  # of a run that was moved or cut off
        return {}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def abandon(directory: Path, step: int) -> None:
    """Rename checkpoints after a step that was chosen to resume from; the next automatic resume would take them."""
    if not (newer := [checkpoint for number, checkpoint in steps(directory) if number > step]):
        return
    aside = directory / f"checkpoints.{_until(path.stat().st_mtime for path in newer)}"
    aside.mkdir(exist_ok=True)
    for checkpoint in newer:
        checkpoint.rename(aside / checkpoint.name)
    write_whole(directory / TRACKER, str(step))
    print(f"note: moved {len(newer)} checkpoints after step {step} to {aside}", file=sys.stderr)


def _until(dates: Iterable[float]) -> str:
    return f"until-{time.strftime('%Y%m%d-%H%M%S', time.localtime(max(dates)))}"


def put_aside(directory: Path) -> None:
    """Rename logs and checkpoints of an earlier run in the directory; the new names contain the date of the last one.

    The files that describe the run go with its checkpoints. Otherwise, after a kill before the first checkpoint, the
    new run would resume from the earlier run.
    """
    metrics, tracker = directory / METRICS, directory / TRACKER
    checkpoints = sorted(directory.glob("global_step_*"))
    dates = [file.stat().st_mtime for file in (metrics, tracker, *checkpoints) if file.exists()]
    if not dates:
        return
    until = _until(dates)
    for log in (metrics, directory / LEFT_OUT, directory / SKIPPED, directory / fingerprint.HISTORY):
        if log.is_file():
            aside = log.rename(directory / f"{log.stem}.{until}.jsonl")
            print(f"note: moved the {log.name} of an earlier run to {aside}", file=sys.stderr)
    if (samples := directory / SAMPLES).is_dir():
        samples.rename(directory / f"validation.{until}")
    saved = [path for path in (*checkpoints, tracker) if path.exists()]
    if saved:
        aside = directory / f"checkpoints.{until}"
        aside.mkdir(exist_ok=True)
        described = [path for name in (CONFIG, ENVIRONMENT, FINGERPRINT) if (path := directory / name).exists()]
        for path in (*saved, *described):
            path.rename(aside / path.name)
        print(f"note: moved {len(checkpoints)} checkpoints of an earlier run to {aside}", file=sys.stderr)


def resumed_step(run: RunConfig) -> int:
    """Return the step of the checkpoint that verl will load, 0 for none."""
    mode = run.settings.resume_mode
    if mode == "resume_path":
        named = STEP.fullmatch(Path(run.settings.resume_path or "").name)
        return int(named[1]) if named else 0  # the checks refuse it
    tracker = run.directory / TRACKER
    text = tracker.read_text().strip() if mode == "auto" and tracker.is_file() else ""
    return int(text) if text.isdecimal() else 0


def last_step(metrics: Path) -> int:
    """Return the largest step of a log, 0 without one."""
    return max((_step(line) or 0 for line in _lines(metrics)), default=0)


def _lines(metrics: Path) -> list[bytes]:
    return metrics.read_bytes().splitlines(keepends=True) if metrics.is_file() else []


def _step(line: bytes) -> int | None:
    """Return the step of a line, None for one that is incomplete or no record."""
    try:
        record = json.loads(line)
        return int(record["step"]) if line.endswith(b"\n") and isinstance(record.get("data", {}), dict) else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def cut(log: Path, step: int) -> None:
    """Remove incomplete lines and the records after a step, which the run will repeat. Raises OSError (write_whole)."""
    lines = _lines(log)
    kept = [line for line in lines if (of_line := _step(line)) is not None and of_line <= step]
    if removed := len(lines) - len(kept):
        write_whole(log, b"".join(kept))
        message = f"removed {removed} incomplete lines and lines after the checkpoint of step {step}"
        print(f"note: {log.name}: {message}", file=sys.stderr)


def environment(run: RunConfig) -> dict[str, Any]:
    """Return what is needed to read or repeat a run: script, method, judge, test files, versions, commit and devices.

    The judge is null for a custom reward function.
    """
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    devices = [gpu.name for gpu in visible()]
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host_cpus": os.cpu_count(),
        "devices": devices or ["cpu"],
        "script": run.settings.script,
        "method": method_of(by_name(run.config)),
        "judge": run.settings.judge,
        fingerprint.CONTENT.format(KEYS["val_files"]): fingerprint.contents(run.files("val")),
        "ray_address": without_login(os.environ.get("RAY_ADDRESS", "local")),
        "git_commit": _git_commit(),
        "versions": versions,
    }


def _git_commit() -> str | None:
    """Return the checkout's commit, with "+" if it has changes; None for an installed package.

    An installed package may lie in another repository, whose commit says nothing about it.
    """
    root = recipe.checkout()
    if root is None:
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
