"""A run's directory belongs to one living process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rpg.checks.finding import Finding, Refused
from rpg.launching.lock import RUN as NAME
from rpg.launching.lock import Held, take

WAYS = "wait for it, end it, or give this run another directory (CKPTS_DIR, trainer.experiment_name)"


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a run's directory, which is made where it is not there, until this process leaves or dies.

    A run that is refused inside this context leaves no directory behind that it made.

    Raises:
        Refused: another process holds it; says which. Or it cannot be made, or not be written into.
    """
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    file = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = take(file)
    except Held as other:
        raise Refused([Finding("trainer.default_local_dir", str(directory), str(other), WAYS)]) from None
    except OSError as error:
        wrong = f"cannot be made or written into ({error.strerror}: {error.filename})"
        found = Finding("trainer.default_local_dir", str(directory), wrong, "set CKPTS_DIR elsewhere")
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
