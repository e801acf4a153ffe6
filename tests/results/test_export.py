"""`rpg export`: rejected input. tests/e2e/test_evaluation.py uses real checkpoints."""

from rpg.cli import main
from rpg.files import manifest
from rpg.results.runs import find_checkpoint
from tests.builders.checkpoints import write_complete

SHARD = "actor/model_world_size_2_rank_1.pt"


def test_damaged_checkpoints_are_passed_over_or_refused(tmp_path, capsys):
    whole, damaged = write_complete(tmp_path, 4), write_complete(tmp_path, 6)
    (damaged / SHARD).write_bytes(b"")
    manifest.begin(tmp_path / "global_step_8")
    assert find_checkpoint(tmp_path) == whole
    notes = capsys.readouterr().err.splitlines()
    assert [note.split(": ")[1] for note in notes] == [str(tmp_path / "global_step_8"), str(damaged)]
    (whole / "data.pt").write_bytes(b"DATA")  # of the same size
    assert main(["export", str(tmp_path)]) == 2
    assert "data.pt" in capsys.readouterr().err
    assert not list(tmp_path.rglob("hf*"))


def test_export_does_not_write_over_anything(tmp_path, capsys):
    write_complete(tmp_path, 3)
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / "mine"
    mine.write_text("x")
    for out in (tmp_path / "out", mine):
        assert main(["export", str(tmp_path), "--out", str(out)]) == 2
        assert "not an empty directory" in capsys.readouterr().err
    assert mine.read_text() == "x"


def test_a_failed_export_leaves_nothing_and_can_be_tried_again(tmp_path, monkeypatch):
    """A stand-in for Python with verl's merger."""
    python = tmp_path / "python"
    write_complete(tmp_path, 3)
    monkeypatch.setattr("sys.executable", str(python))
    before = sorted(tmp_path.rglob("*"))
    for code in (1, 0):
        python.write_text(f'#!/bin/sh\nmkdir -p "$9"\nexit {code}\n')
        python.chmod(0o755)
        assert main(["export", str(tmp_path)]) == code
        made = [*before, python, *([] if code else [tmp_path / "hf-global_step_3"])]
        assert sorted(tmp_path.rglob("*")) == sorted(made)  # beside the checkpoint, which a run deletes in time
