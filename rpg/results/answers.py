"""The newest saved answers of a run: of its last validation, or of its last step (trainer.rollout_data_dir)."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from rpg.diagnostics import printable
from rpg.files.atomic import CONFIG
from rpg.results.messages import ResultsError, end_of
from rpg.results.run_settings import setting
from rpg.results.runs import read_lines, read_mapping

TAIL = 300  # characters of a problem and of an answer, from the end, where the answer's line stands


def newest(run: Path) -> Path:
    """Return the file of a run's newest answers. Raises ResultsError if there is none."""
    config = read_mapping(run / CONFIG) if (run / CONFIG).is_file() else {}
    named = [setting(config, name) for name in ("samples_dir", "rollout_dir")]
    folders = [run / "validation", *(Path(name) for name in named if name)]
    files = [file for folder in folders for file in folder.glob("*.jsonl")]
    if not files:
        raise ResultsError(
            f"{run}: no saved answers yet; validations save theirs (trainer.test_freq), steps theirs with "
            "trainer.rollout_data_dir=DIR"
        )
    return max(files, key=lambda file: file.stat().st_mtime)


def answers(run: Path, count: int, width: int) -> Iterator[str]:
    """Yield the last `count` answers of the newest file, as lines of at most `width` columns."""
    file = newest(run)
    samples = read_lines(file, lambda line: (line["input"], line["output"], line["gts"], line["score"]))[0]
    yield f"{file}: {len(samples)} answers"
    for problem, answer, truth, score in samples[-count:]:
        yield ""
        for label, text in (("problem", problem), ("answer", answer), ("truth", truth), ("score", score)):
            shown = end_of(printable(" ".join(str(text).split())), TAIL)
            yield textwrap.fill(f"{label:<8} {shown}", width, subsequent_indent=" " * 9)
