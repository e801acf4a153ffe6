"""Whether a checkpoint is complete, and which checkpoint of a run is the newest complete one."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rpg.files import manifest

TRACKER = "latest_checkpointed_iteration.txt"  # verl's: the step of the last checkpoint
STEP = re.compile(r"global_step_(0|[1-9]\d{0,17})")
SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d{1,6})_rank_\d{1,6}\.pt")
UNCHECKED = f"has no {manifest.NAME} (of an older version, or of plain verl): only file presence and size were checked"


@dataclass(frozen=True)
class Verdict:
    """The result of checking one checkpoint.

    Attributes:
        directory: global_step_N.
        wrong: one message for each missing or damaged file; empty for a complete checkpoint.
        has_manifest: False for a checkpoint of plain verl, of which only file presence and size were checked.
    """

    directory: Path
    wrong: tuple[str, ...]
    has_manifest: bool

    @property
    def complete(self) -> bool:
        """Whether it can be used."""
        return not self.wrong

    @property
    def why(self) -> str:
        """The first message, and how many more there are."""
        more = f" (and {len(self.wrong) - 1} more)" if len(self.wrong) > 1 else ""
        return f"{self.wrong[0]}{more}" if self.wrong else ""


def verify(directory: Path, *, contents: bool = True) -> Verdict:
    """Check one checkpoint.

    With a manifest, every file that it lists must exist with its size and, with `contents`, its checksum; other files,
    such as an export, are ignored. Without one, the shards of all ranks and data.pt must exist and not be empty.
    A checkpoint whose save did not end is not complete.
    """
    if (directory / manifest.NAME).exists():
        return Verdict(directory, tuple(_differences(directory, contents)), True)
    if (directory / manifest.UNFINISHED).exists():
        return Verdict(directory, (f"{manifest.NAME} is missing: the save did not come to its end",), True)
    return Verdict(directory, tuple(_missing(directory)), False)


def _differences(directory: Path, contents: bool) -> Iterator[str]:
    """What differs from the manifest; checksums are only computed where all sizes are right."""
    try:
        entries = manifest.read(directory)
    except manifest.ManifestError as error:
        yield str(error)
        return
    sizes_match = True
    for name, entry in entries.items():
        file = directory / name
        size = file.stat().st_size if file.is_file() else None
        if size != entry.bytes:
            sizes_match = False
            if size is None:
                yield f"{name} is missing"
            else:
                yield f"{name} {f'has {size}' if size else 'is empty,'} of {entry.bytes} bytes"
    if not (sizes_match and contents):
        return
    try:
        checksums = manifest.checksums(directory / name for name in entries)
    except OSError as error:
        yield f"{error.filename} cannot be read: {error.strerror}"
        return
    for (name, entry), crc32 in zip(entries.items(), checksums, strict=True):
        if crc32 != entry.crc32:
            yield f"{name} is not what was written: CRC-32 {crc32}, and {manifest.NAME} says {entry.crc32}"


def _missing(directory: Path) -> Iterator[str]:
    """Which files a checkpoint without a manifest lacks.

    `checkpoint.save_contents` decides what a run saves, so all ranks have a file of optimizer and extra state, or none.
    """
    actor = directory / "actor"
    if not actor.is_dir():
        yield "actor is missing"
        return
    shards = [match for path in actor.iterdir() if (match := SHARD.fullmatch(path.name))]
    try:
        ranks = json.loads((actor / "fsdp_config.json").read_bytes())["world_size"]
    except FileNotFoundError:  # an older verl
        sizes = {int(match[2]) for match in shards}
        if len(sizes) != 1:
            yield "actor holds no shards, or those of several runs"
            return
        (ranks,) = sizes
    except (OSError, ValueError, KeyError, TypeError):
        ranks = None
    if type(ranks) is not int or not 1 <= ranks < 10**6:
        yield "actor/fsdp_config.json cannot be read, or names no number of processes"
        return
    contents = sorted({"model", *(match[1] for match in shards if int(match[2]) == ranks)})
    names = [f"actor/{part}_world_size_{ranks}_rank_{rank}.pt" for part in contents for rank in range(ranks)]
    for name in (*names, "data.pt"):
        if not (directory / name).is_file():
            yield f"{name} is missing"
        elif not (directory / name).stat().st_size:
            yield f"{name} is empty"


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run resumes from.

    Attributes:
        found: the newest complete one; None where there is none.
        passed_over: those that are newer, newest first.
        tracker: the content of verl's tracker, None where there is none.
    """

    found: Verdict | None
    passed_over: tuple[Verdict, ...]
    tracker: str | None

    @property
    def verl_finds_it(self) -> bool:
        """Whether verl, which follows its tracker, would take the same."""
        return self.found is not None and self.found.directory.name == f"global_step_{self.tracker}"


def newest_complete(run_dir: Path) -> Choice:
    """Return the newest complete checkpoint of a run, and why newer ones were passed over.

    verl writes its tracker before the manifest. A step above the tracker's is therefore unfinished, or left by an
    earlier run in the same directory. A tracker that holds no step decides nothing. Raises OSError.
    """
    file = run_dir / TRACKER
    tracker = file.read_text(errors="replace").strip() if file.is_file() else None
    last = int(tracker) if tracker is not None and re.fullmatch(r"\d{1,18}", tracker) else None
    passed_over: list[Verdict] = []
    for step, directory in steps(run_dir):
        if last is not None and step > last and not (directory / manifest.UNFINISHED).exists():
            wrong = f"is newer than {TRACKER}, which says {last}: of an earlier run in this directory, or not finished"
            verdict = Verdict(directory, (wrong,), (directory / manifest.NAME).exists())
        else:
            verdict = verify(directory)
        if verdict.complete:
            return Choice(verdict, tuple(passed_over), tracker)
        passed_over.append(verdict)
    return Choice(None, tuple(passed_over), tracker)


def steps(run_dir: Path) -> list[tuple[int, Path]]:
    """Return (N, directory) for every global_step_N of a run, newest first; [] where there is no such run."""
    if not run_dir.is_dir():
        return []
    named = [(int(match[1]), path) for path in run_dir.iterdir() if (match := STEP.fullmatch(path.name))]
    return sorted(((step, path) for step, path in named if path.is_dir()), reverse=True)
