"""`rpg export`: rejected input. tests/e2e/test_evaluation.py uses real checkpoints."""

import subprocess

import pytest

from rpg.cli import main
from rpg.files import manifest
from rpg.files.integrity import UNCHECKED
from rpg.results import checkpoints as export
from rpg.results.checkpoints import find_checkpoint
from tests.builders.checkpoints import write_complete, write_verl

SHARD = "actor/model_world_size_2_rank_1.pt"


def checkpoint(folder, step=3):
    """Write a checkpoint of plain verl, of one rank, without optimizer."""
    return write_verl(folder, step, ranks=1, kinds=("model",)) / "actor"


def test_find_checkpoint(tmp_path):
    actor = checkpoint(tmp_path)
    for given in (tmp_path, actor.parent, actor):
        assert find_checkpoint(given) == (actor.parent, [f"{actor.parent}: {UNCHECKED}"])
    manifest.write(actor.parent)
    for given in (tmp_path, actor.parent, actor):
        assert find_checkpoint(given) == (actor.parent, [])


def test_damaged_checkpoints_are_passed_over_or_refused(tmp_path, capsys):
    whole, damaged = write_complete(tmp_path, 4), write_complete(tmp_path, 6)
    (damaged / SHARD).write_bytes(b"")
    manifest.begin(tmp_path / "global_step_8")
    directory, remarks = find_checkpoint(tmp_path)
    assert directory == whole
    assert [remark.partition(":")[0] for remark in remarks] == [str(tmp_path / "global_step_8"), str(damaged)]
    for given in (damaged, damaged / "actor"):
        assert main(["export", str(given)]) == 2
        assert f"{damaged}: {SHARD}" in capsys.readouterr().err
    (whole / "data.pt").write_bytes(b"DATA")  # of the same size
    assert main(["export", str(tmp_path)]) == 2
    assert "data.pt" in capsys.readouterr().err
    assert not list(tmp_path.rglob("hf*"))


def test_export_does_not_write_over_anything(tmp_path):
    checkpoint(tmp_path)
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / "mine"
    mine.write_text("x")
    for out in (tmp_path / "out", mine):
        assert main(["export", str(tmp_path), "--out", str(out)]) == 2
    assert mine.read_text() == "x"


@pytest.mark.parametrize("failing", ["verl.model_merger", "-c"])
def test_a_failed_export_can_be_tried_again(tmp_path, capsys, monkeypatch, failing):
    actor = checkpoint(tmp_path)
    fails = {failing}

    def python(*arguments):
        if "-m" in arguments:
            (arguments[-1] / export.ADAPTER).mkdir(parents=True)
        if fails & set(arguments):
            raise subprocess.CalledProcessError(1, arguments, "why it failed")

    monkeypatch.setattr(export, "python", python)
    before = sorted(actor.parent.iterdir())
    assert main(["export", str(tmp_path)]) == 1
    assert "why it failed" in capsys.readouterr().err
    assert sorted(actor.parent.iterdir()) == before
    fails.clear()
    assert main(["export", str(tmp_path)]) == 0
    assert main(["export", str(tmp_path)]) == 2
    assert "not an empty directory" in capsys.readouterr().err


def test_the_mergers_output_is_shown_only_if_it_fails(capfd):
    speak = "import sys; print('noise'); print('warning', file=sys.stderr); sys.exit(int(sys.argv[1]))"
    export.python("-c", speak, "0")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        export.python("-c", speak, "1")
    assert sorted(failed.value.output.split()) == ["noise", "warning"]
