"""Completeness of checkpoints, and the choice of a run's resume."""

from pathlib import Path

import pytest

from rpg.files import integrity, manifest
from rpg.files.integrity import newest_complete
from tests.builders.checkpoints import write_complete, write_verl

MODEL = "actor/model_world_size_2_rank_1.pt"


def flip(path: Path, place: float = 0.5) -> None:
    """Change one bit; the size stays."""
    content = bytearray(path.read_bytes())
    content[round(place * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def chosen(directory: Path) -> tuple[str | None, list[str], bool]:
    """Return the step that a run resumes from, the skipped ones, and whether verl would choose it."""
    choice = newest_complete(directory)
    return choice.newest and choice.newest.name, [path.name for path in choice.passed_over], choice.verl_takes_it


@pytest.mark.parametrize(("name", "place"), [(MODEL, 0.0), ("data.pt", 1.0)])
def test_a_flipped_bit_and_a_cut_or_missing_file_are_named(tmp_path, name, place):
    step = write_complete(tmp_path, 4)
    flip(step / name, place)
    assert manifest.fault(step).startswith(name)
    assert manifest.fault(step, contents=False) is None
    (step / name).write_bytes(b"x")
    assert manifest.fault(step, contents=False).startswith(f"{name} has 1 of ")
    (step / name).unlink()
    assert manifest.fault(step).startswith(f"{name} has 0 of ")


def test_the_newest_complete_one_is_taken(tmp_path):
    assert chosen(tmp_path / "none")[:2] == (None, [])
    for step in (2, 10, 4):  # by number, not by name
        write_complete(tmp_path, step)
    (tmp_path / integrity.TRACKER).write_text("10")
    for name in ("global_step_x", "global_step_04", "global_step_99.old"):
        (tmp_path / name).mkdir()
    assert chosen(tmp_path) == ("global_step_10", [], True)


def test_damaged_newer_ones_and_killed_saves_are_passed_over(tmp_path):
    write_complete(tmp_path, 4)
    manifest.begin(tmp_path / "global_step_6")
    assert chosen(tmp_path) == ("global_step_4", ["global_step_6"], True)
    write_verl(tmp_path, 6)  # killed after the tracker
    assert chosen(tmp_path) == ("global_step_4", ["global_step_6"], False)
    flip(write_complete(tmp_path, 6) / MODEL)
    (write_complete(tmp_path, 8) / "data.pt").write_bytes(b"")
    assert chosen(tmp_path) == ("global_step_4", ["global_step_8", "global_step_6"], False)
    (tmp_path / "global_step_4/data.pt").unlink()
    assert chosen(tmp_path)[0] is None


def test_checkpoints_of_an_earlier_run_in_the_directory(tmp_path):
    """A run restarted with resume_mode=disable has overwritten step 2 and the tracker."""
    write_complete(tmp_path, 4)
    write_complete(tmp_path, 2)
    assert chosen(tmp_path)[:2] == ("global_step_2", ["global_step_4"])


@pytest.mark.parametrize("content", ["", "-1", None])
def test_a_tracker_without_a_step(tmp_path, content):
    """verl writes it in place, so a kill may leave it empty; verl would fail or start over."""
    write_complete(tmp_path, 2)
    write_complete(tmp_path, 4)
    tracker = tmp_path / integrity.TRACKER
    tracker.unlink() if content is None else tracker.write_text(content)
    assert chosen(tmp_path) == ("global_step_4", [], False)
