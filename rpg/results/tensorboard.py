"""Read TensorBoard event files with TensorBoard's own loader."""

from collections.abc import Iterator
from pathlib import Path

from rpg.results.records import Record

PATTERN = "events.out.tfevents.*"


def event_files(path: Path) -> list[Path]:
    """The event files of a directory in the order in which they were begun, or the file itself."""
    return sorted(path.glob(PATTERN)) if path.is_dir() else [path]


def read_events(path: Path) -> Iterator[Record]:
    """Yield the scalars of every event file, one file after the other: a resumed run has several."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for file in event_files(path):
        accumulator = EventAccumulator(str(file), size_guidance={"scalars": 0}, purge_orphaned_data=False)
        accumulator.Reload()
        steps: dict[int, dict[str, float]] = {}
        for tag in accumulator.Tags()["scalars"]:
            for event in accumulator.Scalars(tag):
                steps.setdefault(event.step, {})[tag] = event.value
        yield from sorted(steps.items())
