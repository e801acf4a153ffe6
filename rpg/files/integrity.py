"""Check whether a checkpoint is complete, and find the newest complete one of a run."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rpg.files import manifest

TRACKER = "latest_checkpointed_iteration.txt"  # verl's file with the step of the last checkpoint
STEP = re.compile(r"global_step_(0|[1-9]\d{0,17})")
SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d+)_rank_\d+\.pt")
REFERENCE = "reference"  # our reference's files, in a folder of this name
UNCHECKED = (
    f"has no {manifest.NAME} (written by an older version or by plain verl): only file presence and size were checked"
)


@dataclass(frozen=True)
class Verdict:
    """The result of checking one checkpoint.

    Attributes:
        directory: global_step_N.
        faults: one message for each missing or damaged file; empty for a complete checkpoint.
        has_manifest: False for a checkpoint of plain verl, of which only file presence and size were checked.
    """

    directory: Path
    faults: tuple[str, ...]
    has_manifest: bool

    @property
    def complete(self) -> bool:
        """Whether the checkpoint can be used."""
        return not self.faults

    @property
    def why(self) -> str:
        """The first message and the number of others; empty for a complete checkpoint."""
        more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
        return "".join(self.faults[:1]) + more


def verify(directory: Path, *, contents: bool = True) -> Verdict:
    """Check one checkpoint.

    With a manifest, every file that it lists must exist with its size and, with `contents`, its checksum; other files,
    such as an export, are ignored. Without one, the shards of all ranks and data.pt must exist and not be empty.
    A checkpoint whose save was interrupted is not complete.
    """
    if (directory / manifest.NAME).exists():
        return Verdict(directory, tuple(_differences(directory, contents)), True)
    if (directory / manifest.UNFINISHED).exists():
        return Verdict(directory, (f"{manifest.NAME} is missing: the save did not finish",), True)
    return Verdict(directory, tuple(_missing(directory)), False)


def _differences(directory: Path, contents: bool) -> Iterator[str]:
    """Differences from the manifest; checksums are computed only if all sizes match."""
    try:
        entries = manifest.read(directory)
    except (OSError, ValueError) as error:
        yield f"{manifest.NAME} cannot be read: {' '.join(str(error).split()):.200}"
        return
    sizes = {name: _size(directory / name) for name in entries}
    wrong_sizes = {name: size for name, size in sizes.items() if size != entries[name].bytes}
    for name, size in wrong_sizes.items():
        yield f"{name} is missing" if size is None else f"{name} has {size} of {entries[name].bytes} bytes"
    if wrong_sizes or not contents:
        return
    try:
        checksums = manifest.checksums(directory / name for name in entries)
    except OSError as error:
        yield f"{error.filename} cannot be read: {error.strerror}"
        return
    for (name, entry), crc32 in zip(entries.items(), checksums, strict=True):
        if crc32 != entry.crc32:
            yield f"{name} is damaged: its CRC-32 is {crc32}, {manifest.NAME} lists {entry.crc32}"


def _size(file: Path) -> int | None:
    return file.stat().st_size if file.is_file() else None


def _missing(directory: Path) -> Iterator[str]:
    """Missing and empty files of a checkpoint without a manifest.

    `checkpoint.save_contents` decides what a run saves: either all ranks have optimizer and extra state, or none.
    """
    actor = directory / "actor"
    try:
        ranks = int(json.loads((actor / "fsdp_config.json").read_bytes())["world_size"])
    except (OSError, ValueError, KeyError, TypeError):
        ranks = 0
    if not 1 <= ranks < 10**6:
        yield "actor/fsdp_config.json is missing or states no world_size"
        return
    shards = [match for path in actor.iterdir() if (match := SHARD.fullmatch(path.name))]
    kinds = sorted({"model", *(shard[1] for shard in shards if int(shard[2]) == ranks)})
    names = [f"actor/{kind}_world_size_{ranks}_rank_{rank}.pt" for kind in kinds for rank in range(ranks)]
    for name in (*names, "data.pt"):
        if not (size := _size(directory / name)):
            yield f"{name} is {'missing' if size is None else 'empty'}"


def ranks_that_saved(directory: Path, kind: str) -> set[int]:
    """Return the world sizes in the names of a checkpoint's files of a kind: model, optim, extra_state or reference.

    verl's loader opens the file of its own world size and rank, and does not reshard.
    """
    folder = directory / (REFERENCE if kind == REFERENCE else "actor")
    prefix = "" if kind == REFERENCE else f"{kind}_"
    names = re.compile(rf"{prefix}world_size_(\d+)_rank_\d+\.pt")
    files = folder.iterdir() if folder.is_dir() else ()
    return {int(match[1]) for path in files if (match := names.fullmatch(path.name))}


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run resumes from.

    Attributes:
        newest: the newest complete one, or None.
        passed_over: newer ones, newest first.
        tracker: the content of verl's tracker; None if there is no tracker.
    """

    newest: Verdict | None
    passed_over: tuple[Verdict, ...]
    tracker: str | None

    @property
    def verl_takes_it(self) -> bool:
        """Whether verl, which follows its tracker, would load the same checkpoint."""
        return self.newest is not None and self.newest.directory.name == f"global_step_{self.tracker}"


def newest_complete(run_dir: Path, *, contents: bool = True) -> Choice:
    """Return the newest complete checkpoint of a run, and why newer ones were passed over.

    verl writes its tracker before the manifest. A step above the tracker's is therefore unfinished, or left by an
    earlier run in the same directory. A tracker that holds no step is ignored. contents: whether to verify checksums.
    Raises OSError.
    """
    file = run_dir / TRACKER
    tracker = file.read_text(errors="replace").strip() if file.is_file() else None
    last = int(tracker) if tracker is not None and re.fullmatch(r"\d{1,18}", tracker) else None
    passed_over: list[Verdict] = []
    for step, directory in steps(run_dir):
        if last is not None and step > last and not (directory / manifest.UNFINISHED).exists():
            whole = (directory / manifest.NAME).exists()
            message = f"is newer than step {last} in {TRACKER}: left by an earlier run in this directory, or " + (
                "saved with async_save; trainer.resume_mode=resume_path loads it" if whole else "not finished"
            )
            verdict = Verdict(directory, (message,), whole)
        else:
            verdict = verify(directory, contents=contents)
        if verdict.complete:
            return Choice(verdict, tuple(passed_over), tracker)
        passed_over.append(verdict)
    return Choice(None, tuple(passed_over), tracker)


def steps(run_dir: Path) -> list[tuple[int, Path]]:
    """Return (N, directory) for every global_step_N of a run, newest first; [] if the run does not exist."""
    named = [(STEP.fullmatch(path.name), path) for path in run_dir.glob("global_step_*")]
    return sorted(((int(match[1]), path) for match, path in named if match and path.is_dir()), reverse=True)
