"""The checkpoints of a run: all of them, and the newest complete one."""

import re
from dataclasses import dataclass
from pathlib import Path

from rpg.files import manifest

TRACKER = "latest_checkpointed_iteration.txt"  # verl's file with the step of the last checkpoint
STEP = re.compile(r"global_step_(0|[1-9]\d{0,17})")
REFERENCE = "reference"  # our reference's files, in a folder of this name


def steps(run_dir: Path) -> list[tuple[int, Path]]:
    """Return (N, directory) for every global_step_N of a run, newest first; [] if the run does not exist."""
    named = [(STEP.fullmatch(path.name), path) for path in run_dir.glob("global_step_*")]
    return sorted(((int(match[1]), path) for match, path in named if match and path.is_dir()), reverse=True)


@dataclass(frozen=True)
class Choice:
    """The checkpoint that a run resumes from.

    Attributes:
        newest: the newest complete checkpoint, or None.
        passed_over: newer, incomplete checkpoints, newest first, and the reason.
        tracker: the content of verl's tracker; None if there is no tracker.
    """

    newest: Path | None
    passed_over: dict[Path, str]
    tracker: str | None

    @property
    def verl_takes_it(self) -> bool:
        """Whether verl, which follows its tracker, would load the same checkpoint."""
        return self.newest is not None and self.newest.name == f"global_step_{self.tracker}"


def newest_complete(run_dir: Path, *, contents: bool = True) -> Choice:
    """Return the newest complete checkpoint of a run, and why newer ones were passed over.

    verl writes its tracker before the manifest, so that a complete step above the tracker's was left by an earlier run
    in the same directory. A tracker that holds no step is ignored. contents: whether to verify checksums.
    Raises OSError.
    """
    file = run_dir / TRACKER
    tracker = file.read_text(errors="replace").strip() if file.is_file() else None
    last = int(tracker) if tracker is not None and re.fullmatch(r"\d{1,18}", tracker) else None
    passed_over: dict[Path, str] = {}
    for step, directory in steps(run_dir):
        if last is not None and step > last and (directory / manifest.NAME).exists():
            why = f"is newer than step {last} in {TRACKER}; trainer.resume_mode=resume_path loads it"
        else:
            why = manifest.fault(directory, contents=contents)
        if not why:
            return Choice(directory, passed_over, tracker)
        passed_over[directory] = why
    return Choice(None, passed_over, tracker)
