"""A run's directory: its lock, config.yaml, environment.json and metrics.jsonl besides verl's checkpoints."""

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import Timeout
from omegaconf import OmegaConf

from rpg.config import record
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import VALIDATION
from rpg.diagnostics import ABSENT, Diagnostic, Refused
from rpg.dotted import value_at
from rpg.files.atomic import CONFIG, ENVIRONMENT, LEFT_OUT, METRICS, SAMPLES, write_whole
from rpg.files.integrity import STEP, TRACKER, steps
from rpg.files.lock import RUN, owner, take
from rpg.gpu_host import visible
from rpg.registry import scripts
from rpg.secrets import without_login
from rpg.verl_plugin.version import installed

PACKAGES = (
    "rpg-verl", "verl", "torch", "vllm", "ray", "transformers", "flash-attn", "tensordict", "TransferQueue",
    "schedulefree", "pandas", "pyarrow", "hydra-core", "wandb", "math-verify", "numpy",
)  # fmt: skip


@contextlib.contextmanager
def held(run: RunConfig) -> Iterator[None]:
    """Lock the run's directory, reject another training in it, and prepare it for the run.

    Writes config.yaml and environment.json, and cuts the logs to the checkpoint.

    Raises:
        Refused: another process holds it, it cannot be written to, it holds another training, checkpoints that the run
            would not resume from, or a training and the run only validates.
    """
    with locked(run.directory):
        refuse_validation(run)
        refuse_later_steps(run)
        changed = record.refuse_another(run.directory, run)
        try:
            prepare(run, changed)
        except OSError as error:
            raise not_writable(run.directory, error) from error
        yield


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Create and lock a run's directory until this process leaves the context or dies.

    Raises:
        Refused: another process holds it, or it cannot be created or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = take(directory / RUN)
    except Timeout:
        message = f"in use by {owner(directory / RUN)}"
        remedy = "wait for it, stop it, or use another directory (CKPTS_DIR, trainer.experiment_name)"
        raise Refused([Diagnostic("trainer.default_local_dir", str(directory), message, remedy)]) from None
    except OSError as error:
        raise not_writable(directory, error) from error
    try:
        yield
    finally:
        lock.release()


def not_writable(directory: Path, error: OSError) -> Refused:
    """Return the refusal of a directory on a full or read-only disk."""
    message = f"cannot be written to ({error})"
    return Refused([Diagnostic("trainer.default_local_dir", str(directory), message, "set CKPTS_DIR elsewhere")])


def refuse_validation(run: RunConfig) -> None:
    """Raise Refused if the run only validates and its directory holds a training, whose files it would rewrite."""
    file = run.directory / CONFIG
    if run["trainer.val_only"] and file.is_file() and not OmegaConf.select(OmegaConf.load(file), "trainer.val_only"):
        message = f"would rewrite configuration and log of the training in {run.directory}"
        remedy = "validate by `rpg eval DIRECTORY`, or set another trainer.default_local_dir"
        raise Refused([run.error("trainer.val_only", message, remedy)])


def refuse_later_steps(run: RunConfig) -> None:
    """Raise Refused for checkpoints after the step where the run begins: the next automatic resume would take them."""
    begins = resumed_step(run)
    later = [path.name for step, path in steps(run.directory) if step > begins]
    if later and not run.resumes_by_choice:
        message = f"the run would begin at step {begins}, but {run.directory} has {', '.join(later)}"
        remedy = "move these into another directory" if begins else "move that directory aside"
        raise Refused([run.error("trainer.resume_mode", message, f"{remedy}, or choose another run name")])


def finished(run: RunConfig) -> str | None:
    """Return a message if the directory holds the run's last step, so that nothing is left to train.

    Raises Refused if it is the last step of another training.
    """
    logged, step = last_step(run.directory / METRICS), resumed_step(run)
    only_logged = run["trainer.resume_mode"] == "auto" and (run["trainer.save_freq"] < 1 or not step)
    step = logged if only_logged else step  # nothing was saved, or a finished run's checkpoints were removed
    if (total := run["trainer.total_training_steps"]) is None or step < total or run["trainer.val_only"]:
        return None
    if 0 < logged < total and run["trainer.val_before_train"]:
        return None  # killed in its last validation, which verl repeats
    record.refuse_another(run.directory, run)
    more = "" if only_logged else "raise trainer.total_training_steps to train on; "
    lacking = f", but not validated after step {logged} (`rpg eval` does it)" if 0 < logged < total else ""
    return (
        f"finished at step {step} of {total}{lacking}: {brief(run.directory)}\n"
        f"{more}choose another trainer.experiment_name to start over"
    )


def prepare(run: RunConfig, changed: dict[str, tuple[Any, Any]]) -> None:
    """Write the run's files and cut the logs; changed: settings that differ from the resumed run's. Raises OSError."""
    directory, step, made_with = run.directory, resumed_step(run), environment(run)
    before, recorded = record.recorded(directory) if step else ({}, {})
    if before:  # also what accuracies are measured by, which a resume may change
        pairs = {key: (value_at(before, key), run[key]) for key in VALIDATION}
        files = [made.get(record.CONTENTS, {}).get("data.val_files") for made in (recorded, made_with)]
        pairs["data.val_files (content)"] = (files[0], files[1])
        changed = changed | {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    start = {
        "after_step": step,
        "changed": {key: [None if value is ABSENT else value for value in pair] for key, pair in changed.items()},
        **{key: made_with[key] for key in ("started", "git_commit", "versions")},
    }
    made_with["starts"] = [*recorded.get("starts", []), start]
    kept = -1 if run["trainer.resume_mode"] == "disable" else step
    for log in (METRICS, LEFT_OUT):
        cut(directory / log, kept)
    for samples in (directory / SAMPLES).glob("*.jsonl"):
        if samples.stem.isdecimal() and int(samples.stem) > kept:
            samples.unlink()
    write_whole(directory / ENVIRONMENT, json.dumps(made_with, indent=2) + "\n")
    write_whole(directory / CONFIG, run.yaml())  # last: a directory with this file is a run


def resumed_step(run: RunConfig) -> int:
    """Return the step of the checkpoint that verl will load, 0 for none."""
    mode = run["trainer.resume_mode"]
    if mode == "resume_path":
        named = STEP.fullmatch(Path(run["trainer.resume_from_path"] or "").name)
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
    """Return the step of a line, None for an incomplete one, as a kill or a full disk leaves it."""
    try:
        return int(json.loads(line)["step"]) if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError):
        return None


def cut(log: Path, step: int) -> None:
    """Remove incomplete lines and the records after a step, which the run will repeat. Raises OSError."""
    lines = _lines(log)
    kept = [line for line in lines if (of_line := _step(line)) is not None and of_line <= step]
    if removed := len(lines) - len(kept):
        write_whole(log, b"".join(kept))
        print(f"note: removed from {log.name} what the run repeats: {removed} of {len(lines)} lines", file=sys.stderr)


def environment(run: RunConfig) -> dict[str, Any]:
    """Return what a run was made with: hashes of the files that it names, versions, commit and devices."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host_cpus": os.cpu_count(),
        "devices": [gpu.name for gpu in visible()] or ["cpu"],
        record.CONTENTS: record.contents(run),
        "ray_address": without_login(os.environ.get("RAY_ADDRESS", "local")),
        "git_commit": _git_commit(),
        "versions": {name: version for name in PACKAGES if (version := installed(name))},
    }


def _git_commit() -> str | None:
    """Return the checkout's commit, with "+" if it has changes; None for an installed package.

    An installed package may lie in another repository, whose commit says nothing about it.
    """
    if (root := scripts.checkout()) is None:
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    with contextlib.suppress(OSError):  # no git
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def brief(path: Path) -> Path:
    """Return a path below the working directory as a relative one."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
