"""A disk that is full at the start, in mid-metrics and in mid-checkpoint, and one that cannot be written to.

A small tmpfs, which takes root to mount.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpg.files import manifest
from rpg.files.integrity import newest_complete
from tests.e2e.conftest import PATIENCE, Run

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.full,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs takes root"),
]
SETTINGS = ["trainer.val_before_train=false", "trainer.test_freq=-1", "trainer.save_freq=1"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Leave so many bytes free."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    file = disk / "somebody's"
    with open(file, "wb") as stream:
        stream.write(bytes(free - leave))
    return file


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


def steps(directory: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (directory / "metrics.jsonl").read_text().splitlines()]


def test_full_or_read_only_at_the_start(start, disk):
    """Before Ray starts, with the file or the directory named; nothing of an earlier run has changed."""
    here = f"trainer.default_local_dir={disk / 'run'}"
    filled = fill(disk, 0)
    run = start(*SETTINGS, here)
    assert run.wait() in (1, 2), run.text()
    assert str(disk) in run.text()
    assert "Traceback" not in run.text()
    filled.unlink()
    remount(disk, "ro")
    run = start(*SETTINGS, here)
    assert run.wait() in (1, 2), run.text()
    assert str(disk) in run.text()
    assert "Traceback" not in run.text()


def test_full_in_the_middle(start, disk):
    """Between two checkpoints: the next one is not begun; the same command goes on when there is room."""
    directory = disk / "run"
    settings = [*SETTINGS, f"trainer.default_local_dir={directory}", "trainer.total_training_steps=4"]
    run = start(*settings)
    run.directory = directory
    run.wait_for_step(1)
    filled = fill(disk, 200_000)  # a few lines of metrics, no checkpoint
    assert run.wait(PATIENCE) == 1, run.text()[-3000:]
    assert "is not begun: " in run.text() or "No space left on device" in run.text()
    assert run.processes() == []
    saved = newest_complete(directory).found
    assert saved is not None
    filled.unlink()
    filled = fill(disk, 0)  # not even a line
    again = start(*settings)
    assert again.wait(PATIENCE) != 0
    assert str(disk) in again.text()
    filled.unlink()
    last = start(*settings)
    assert last.wait(PATIENCE) == 0, last.text()[-3000:]
    assert steps(directory) == [1, 2, 3, 4]
    assert last.processes() == []


def fill_within_a_save(disk: Path, directory: Path, run: Run) -> Path:
    """Take what is free while a checkpoint is being written; returns the file that did, the checkpoint unfinished."""
    until = time.monotonic() + PATIENCE
    file = disk / "somebody's"
    while time.monotonic() < until:
        assert run.process.poll() is None, f"the run ended with no save met:\n{run.text()[-3000:]}"
        begun = list(directory.glob(f"global_step_*/{manifest.UNFINISHED}"))
        if not begun or newest_complete(directory).found is None:  # there is to be one to go on from
            continue
        with open(file, "wb", buffering=0) as stream, contextlib.suppress(OSError):  # until nothing is free
            while begun[0].exists():
                stream.write(bytes(100_000))
        if begun[0].exists():
            return file
        file.unlink()  # too late for this one
    raise TimeoutError(f"no save was met in {PATIENCE} s")


def test_full_in_the_middle_of_a_checkpoint(start, disk):
    """The run ends with the file that could not be written; the checkpoint before is the newest whole one."""
    directory = disk / "run"
    settings = [*SETTINGS, f"trainer.default_local_dir={directory}", "trainer.total_training_steps=20"]
    run = start(*settings)
    run.directory = directory
    filled = fill_within_a_save(disk, directory, run)
    assert run.wait(PATIENCE) == 1, run.text()[-3000:]
    assert run.processes() == []
    assert "was not finished: " in run.text() or "No space left on device" in run.text()  # a line may meet it first
    saved = newest_complete(directory).found
    assert saved is not None
    filled.unlink()
    last = start(*settings)
    assert last.wait(PATIENCE) == 0, last.text()[-3000:]
    assert "is passed over" in last.text() + (directory / "run.log").read_text(errors="replace")
    assert steps(directory) == list(range(1, 21))
    assert last.processes() == []
