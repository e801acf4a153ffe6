"""Whether a checkpoint is whole, and the newest of a run's that is."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rpg.files import manifest

TRACKER = "latest_checkpointed_iteration.txt"  # verl's: the step of the last checkpoint
STEP = re.compile(r"global_step_(0|[1-9]\d{0,17})")
SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d{1,6})_rank_\d{1,6}\.pt")
UNCHECKED = f"has no {manifest.NAME} (of an older version, or of plain verl): judged by what can be seen of it alone"


@dataclass(frozen=True)
class Verdict:
    """What was found about a checkpoint.

    Attributes:
        directory: global_step_N.
        wrong: what is wrong with it, a file each; nothing where it is complete.
        has_manifest: whether it was judged by one, or by its absence where it was to get one; else by what can be seen.
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
        """What is wrong, in a line: the first file, and how many more."""
        more = f" (and {len(self.wrong) - 1} more)" if len(self.wrong) > 1 else ""
        return f"{self.wrong[0]}{more}" if self.wrong else ""


def verify(directory: Path, *, contents: bool = True) -> Verdict:
    """Judge a checkpoint.

    With a manifest: every file of it is there, of its size and, with contents, of its checksum; files beside them,
    such as an export, do not matter. Without one, and not left unfinished, it is of an older version or of plain verl,
    and what can be seen has to do: the shards of all ranks and data.pt are there and not empty.
    """
    if (directory / manifest.NAME).exists():
        return Verdict(directory, tuple(_against_manifest(directory, contents)), True)
    if (directory / manifest.UNFINISHED).exists():
        return Verdict(directory, (f"{manifest.NAME} is missing: the save did not come to its end",), True)
    return Verdict(directory, tuple(_seen(directory)), False)


def _against_manifest(directory: Path, contents: bool) -> Iterator[str]:
    try:
        entries = manifest.read(directory)
    except manifest.ManifestError as error:
        yield str(error)
        return
    wrong = [text for name, entry in entries.items() if (text := _size(directory / name, name, entry.bytes))]
    if wrong or not contents:
        yield from wrong
        return
    try:
        found = manifest.checksums(directory / name for name in entries)
    except OSError as error:
        yield f"{error.filename} cannot be read: {error.strerror}"
        return
    for (name, entry), crc32 in zip(entries.items(), found, strict=True):
        if crc32 != entry.crc32:
            yield f"{name} is not what was written: CRC-32 {crc32}, and {manifest.NAME} says {entry.crc32}"


def _size(file: Path, name: str, wanted: int) -> str | None:
    """What is wrong with a file's size; None where nothing is."""
    if not file.is_file():
        return f"{name} is missing"
    found = file.stat().st_size
    if found == wanted:
        return None
    return f"{name} is empty, of {wanted} bytes" if not found else f"{name} has {found} of {wanted} bytes"


def _seen(directory: Path) -> Iterator[str]:
    """What is wrong with a checkpoint without a manifest.

    What a run saves is a setting, so of optimizer and extra state all ranks have a file or none.
    """
    actor = directory / "actor"
    if not actor.is_dir():
        yield "actor is missing"
        return
    shards = [match for path in actor.iterdir() if (match := SHARD.fullmatch(path.name))]
    ranks = _ranks(actor, [int(match[2]) for match in shards])
    if isinstance(ranks, str):
        yield ranks
        return
    for kind in sorted({"model", *(match[1] for match in shards if int(match[2]) == ranks)}):
        for rank in range(ranks):
            yield from _empty(actor / f"{kind}_world_size_{ranks}_rank_{rank}.pt", directory)
    yield from _empty(directory / "data.pt", directory)


def _ranks(actor: Path, named: list[int]) -> int | str:
    """How many ranks wrote an actor: by verl's own file, where that is missing by the shards; else what is wrong."""
    file = actor / "fsdp_config.json"
    if not file.exists():
        return named[0] if len(set(named)) == 1 else "actor holds no shards, or those of several runs"
    try:
        ranks = json.loads(file.read_bytes())["world_size"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "actor/fsdp_config.json cannot be read, or says no world_size"
    if type(ranks) is not int or not 1 <= ranks < 10**6:
        return f"actor/fsdp_config.json: world_size is {ranks!r:.40}, no number of processes"
    return ranks


def _empty(file: Path, directory: Path) -> Iterator[str]:
    if not file.is_file():
        yield f"{file.relative_to(directory)} is missing"
    elif not file.stat().st_size:
        yield f"{file.relative_to(directory)} is empty"


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run goes on from.

    Attributes:
        found: the newest complete one; None where there is none.
        passed_over: those that are newer, newest first.
        tracker: what verl's tracker says, None where there is none.
    """

    found: Verdict | None
    passed_over: tuple[Verdict, ...]
    tracker: str | None

    @property
    def verl_finds_it(self) -> bool:
        """Whether verl, following its tracker, would take the same."""
        return self.found is not None and self.found.directory.name == f"global_step_{self.tracker}"


def newest_complete(run_dir: Path) -> Choice:
    """The newest complete checkpoint of a run, and why those before it were passed over.

    verl writes its tracker before a manifest, so what is newer than the tracker is of an earlier run in the directory
    (that was begun anew, or from another step), or was not finished. A tracker that says no step decides nothing.
    Raises OSError.
    """
    tracker = read_tracker(run_dir)
    last = int(tracker) if tracker is not None and re.fullmatch(r"\d{1,18}", tracker) else None
    passed_over: list[Verdict] = []
    for step, directory in steps(run_dir):
        if last is not None and step > last and not (directory / manifest.UNFINISHED).exists():
            wrong = f"is newer than {TRACKER}, which says {last}: of an earlier run in this directory, or not finished"
            passed_over.append(Verdict(directory, (wrong,), (directory / manifest.NAME).exists()))
            continue
        verdict = verify(directory)
        if verdict.complete:
            return Choice(verdict, tuple(passed_over), tracker)
        passed_over.append(verdict)
    return Choice(None, tuple(passed_over), tracker)


def steps(run_dir: Path) -> list[tuple[int, Path]]:
    """The directories global_step_N of a run with their N, newest first; none where there is no such run."""
    if not run_dir.is_dir():
        return []
    found = [(int(match[1]), path) for path in run_dir.iterdir() if (match := STEP.fullmatch(path.name))]
    return sorted(((step, path) for step, path in found if path.is_dir()), reverse=True)


def read_tracker(run_dir: Path) -> str | None:
    """What verl's tracker says, as it stands; None where there is none. Raises OSError."""
    tracker = run_dir / TRACKER
    return tracker.read_text(errors="replace").strip() if tracker.is_file() else None
