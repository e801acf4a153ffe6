"""TensorBoard event files, read with TensorBoard's own record reader."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rpg.results.settings import ResultsError


def read_events(
    files: Iterable[Path], wanted: Callable[[str], bool], notes: list[str]
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield step and wanted scalars of event files, one file after the other: a resumed run has several.

    TensorBoard's own loader ends at a wrong checksum without a message; its record reader does not.

    Raises:
        ResultsError: a file that is damaged, or holds something else.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined] # made at import
    from tensorboard.compat.tensorflow_stub import errors
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

    for file in files:
        steps: dict[int, dict[str, float]] = {}
        try:
            reader = PyRecordReader_New(str(file))
            while True:
                reader.GetNext()
                event = Event.FromString(reader.record())
                scalars = {value.tag: value.simple_value for value in event.summary.value if wanted(value.tag)}
                if event.step < 0:
                    raise ValueError(f"step {event.step}")
                if event.summary.value:
                    steps.setdefault(event.step, {}).update(scalars)
        except errors.OutOfRangeError:
            pass
        except errors.DataLossError as error:
            if "truncated" not in str(error):
                raise ResultsError(f"{file}: {error}; the file is damaged, copy it again") from error
            notes.append(f"{file}: the end is cut off: the last record was not written to its end")
        except (errors.NotFoundError, DecodeError, ValueError) as error:
            raise ResultsError(f"{file}: no scalars of a run ({error}); copy it again") from error
        yield from sorted(steps.items())
