"""A disk that is full while writing metrics or a checkpoint, or at the start, and a read-only disk.

Uses a small tmpfs, which requires root.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpg.files.integrity import newest_complete
from tests.e2e.conftest import PATIENCE

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
    """Fill the disk up to the given free bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    file = disk / "somebody's"
    with open(file, "wb") as stream:
        stream.write(bytes(free - leave))
    return file


def test_read_only_at_the_start(start, disk):
    """Fails before Ray starts and names the directory."""
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    run = start(*SETTINGS, f"trainer.default_local_dir={disk / 'run'}")
    assert run.wait() in (1, 2), run.text()
    assert str(disk) in run.text()
    assert "Traceback" not in run.text()


def test_full_in_the_middle(start, disk):
    """Between two checkpoints: no further save starts; the same command resumes when there is space."""
    directory = disk / "run"
    settings = [*SETTINGS, f"trainer.default_local_dir={directory}", "trainer.total_training_steps=4"]
    run = start(*settings)
    run.directory = directory
    run.wait_for_step(1)
    filled = fill(disk, 200_000)  # a few lines of metrics, no checkpoint
    assert run.wait(PATIENCE) == 1, run.text()[-3000:]
    assert "No space left on device" in run.text()
    assert run.processes() == []
    saved = newest_complete(directory).newest
    assert saved is not None
    filled.unlink()
    filled = fill(disk, 0)  # not even a line
    again = start(*settings)
    assert again.wait(PATIENCE) in (1, 2), again.text()
    assert str(disk) in again.text()
    assert "Traceback" not in again.text()
    filled.unlink()
    last = start(*settings)
    assert last.wait(PATIENCE) == 0, last.text()[-3000:]
    last.directory = directory
    assert [record["step"] for record in last.metrics()] == [1, 2, 3, 4]
    assert last.processes() == []
