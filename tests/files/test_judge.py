"""Which checkpoints count, with and without a manifest, and from which one a run goes on."""

from pathlib import Path

import pytest

from rpg.files import judge, manifest
from rpg.files.judge import newest_complete, verify
from tests.files.written import KINDS, write_complete, write_verl

MODEL = "actor/model_world_size_2_rank_1.pt"


def length(step: Path, name: str = MODEL) -> int:
    return (step / name).stat().st_size


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_whole_checkpoint(tmp_path):
    verdict = verify(write_complete(tmp_path, 4))
    assert verdict.complete
    assert verdict.has_manifest


def test_what_is_added_later_does_not_matter(tmp_path):
    step = write_complete(tmp_path, 4)
    (step / "hf").mkdir()
    (step / "hf" / "model.safetensors").write_bytes(b"w")
    assert verify(step).complete


def test_every_damaged_file_is_named(tmp_path):
    step = write_complete(tmp_path, 4)
    size = length(step)
    (step / MODEL).write_bytes(b"")
    assert verify(step).wrong == (f"{MODEL} is empty, of {size} bytes",)
    (step / MODEL).write_bytes(b"x" * (size - 1))
    assert verify(step).wrong == (f"{MODEL} has {size - 1} of {size} bytes",)
    for kind in KINDS:
        (step / f"actor/{kind}_world_size_2_rank_1.pt").unlink()
    wrong = verify(step).wrong
    assert set(wrong) == {f"actor/{kind}_world_size_2_rank_1.pt is missing" for kind in KINDS}
    assert verify(step).why.endswith("(and 2 more)")


@pytest.mark.parametrize("name", [MODEL, "actor/optim_world_size_2_rank_0.pt", "actor/fsdp_config.json", "data.pt"])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_flipped_bit(tmp_path, name, place):
    """Of the same size, so that only the checksum knows."""
    step = write_complete(tmp_path, 4)
    flip(step / name, round(place * (length(step, name) - 1)))
    [wrong] = verify(step).wrong
    assert wrong.startswith(f"{name} is not what was written: CRC-32 ")
    assert verify(step, contents=False).complete


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    step = write_complete(tmp_path, 4)

    def failing(file):
        raise OSError(5, "Input/output error", str(file))

    monkeypatch.setattr(manifest, "checksum", failing)
    [wrong] = verify(step).wrong
    assert wrong.endswith("cannot be read: Input/output error")


def test_plain_verl_is_judged_by_what_can_be_seen(tmp_path):
    verdict = verify(write_verl(tmp_path, 4))
    assert verdict.complete
    assert not verdict.has_manifest
    assert verify(write_verl(tmp_path, 5, kinds=("model",))).complete  # what is saved is a setting


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (MODEL, b"", f"{MODEL} is empty"),
        (MODEL, None, f"{MODEL} is missing"),
        ("actor/optim_world_size_2_rank_0.pt", None, "actor/optim_world_size_2_rank_0.pt is missing"),
        ("data.pt", None, "data.pt is missing"),
        ("data.pt", b"", "data.pt is empty"),
        ("actor/fsdp_config.json", b"", "fsdp_config.json cannot be read"),
        ("actor/fsdp_config.json", b"[2]", "fsdp_config.json cannot be read"),
        ("actor/fsdp_config.json", b'{"world_size": true}', "world_size is True, no number"),
        ("actor/fsdp_config.json", b'{"world_size": 3}', "model_world_size_3_rank_0.pt is missing"),
    ],
)
def test_plain_verl_that_is_not_whole(tmp_path, name, content, said):
    step = write_verl(tmp_path, 4)
    (step / name).unlink() if content is None else (step / name).write_bytes(content)
    assert said in verify(step).wrong[0]


def test_an_older_verl_without_its_own_file(tmp_path):
    step = write_verl(tmp_path, 4)
    (step / "actor/fsdp_config.json").unlink()
    assert verify(step).complete
    (step / "actor/model_world_size_3_rank_0.pt").write_bytes(b"x")
    assert "those of several runs" in verify(step).why


def test_no_directory_at_all(tmp_path):
    assert verify(tmp_path / "global_step_1").why == "actor is missing"
    choice = newest_complete(tmp_path / "none")
    assert (choice.found, choice.passed_over, choice.tracker) == (None, (), None)


def names(verdicts) -> list[str]:
    return [verdict.directory.name for verdict in verdicts]


def test_the_newest_complete_one_is_taken(tmp_path):
    for step in (2, 10, 4):  # by number, not by name
        write_complete(tmp_path, step)
    (tmp_path / judge.TRACKER).write_text("10")
    choice = newest_complete(tmp_path)
    assert names([choice.found]) == ["global_step_10"]
    assert choice.verl_finds_it
    assert choice.passed_over == ()


def test_a_damaged_newest_is_passed_over(tmp_path):
    write_complete(tmp_path, 2)
    write_complete(tmp_path, 4)
    flip(write_complete(tmp_path, 6) / MODEL, 7)
    (write_complete(tmp_path, 8) / "data.pt").write_bytes(b"")
    choice = newest_complete(tmp_path)
    assert names([choice.found]) == ["global_step_4"]
    assert not choice.verl_finds_it
    assert names(choice.passed_over) == ["global_step_8", "global_step_6"]
    assert choice.passed_over[0].why == "data.pt is empty, of 4 bytes"
    assert MODEL in choice.passed_over[1].why


def test_a_save_that_was_killed_is_passed_over(tmp_path):
    """Before verl's tracker and after it."""
    write_complete(tmp_path, 4)
    manifest.begin(tmp_path / "global_step_6")
    (tmp_path / "global_step_6/actor").mkdir()
    choice = newest_complete(tmp_path)
    assert names([choice.found]) == ["global_step_4"]
    assert choice.verl_finds_it
    assert names(choice.passed_over) == ["global_step_6"]
    write_verl(tmp_path, 6)
    choice = newest_complete(tmp_path)
    assert names([choice.found]) == ["global_step_4"]
    assert not choice.verl_finds_it
    assert "did not come to its end" in choice.passed_over[0].why


def test_none_is_complete(tmp_path):
    (write_complete(tmp_path, 2) / "data.pt").unlink()
    manifest.begin(tmp_path / "global_step_4")
    choice = newest_complete(tmp_path)
    assert choice.found is None
    assert not choice.verl_finds_it
    assert names(choice.passed_over) == ["global_step_4", "global_step_2"]


def test_checkpoints_of_an_earlier_run_in_the_directory(tmp_path):
    """Begun anew (resume_mode=disable), the run wrote step 2 over the old one's and its number into the tracker."""
    write_complete(tmp_path, 4)
    write_complete(tmp_path, 2)
    choice = newest_complete(tmp_path)
    assert names([choice.found]) == ["global_step_2"]
    assert choice.verl_finds_it
    assert "which says 2: of an earlier run" in choice.passed_over[0].why


@pytest.mark.parametrize("said", ["", "abc", "-1", "\ufffd", None])
def test_a_tracker_that_says_nothing(tmp_path, said):
    """verl writes it in place, so a kill may leave it empty; verl itself would fail, or start anew."""
    write_complete(tmp_path, 2)
    write_complete(tmp_path, 4)
    tracker = tmp_path / judge.TRACKER
    tracker.unlink() if said is None else tracker.write_text(said)
    choice = newest_complete(tmp_path)
    assert names([choice.found]) == ["global_step_4"]
    assert not choice.verl_finds_it


def test_what_is_no_step_is_left_alone(tmp_path):
    write_complete(tmp_path, 4)
    for name in ("global_step_x", "global_step_", "global_step_04", "global_step_9.old"):
        (tmp_path / name).mkdir()
    (tmp_path / "global_step_7").write_text("a file")
    assert names([newest_complete(tmp_path).found]) == ["global_step_4"]
    assert newest_complete(tmp_path).passed_over == ()
