"""A run's directory: one training, complete files; tests/e2e/test_schedules.py has two processes in it."""

import json
import os

import pytest

from rpg.diagnostics import Refused
from rpg.files.atomic import ENVIRONMENT, write_whole
from rpg.files.integrity import TRACKER
from rpg.run import directory as rundir
from tests.builders.toy_run import small_run as config


@pytest.mark.parametrize(("mode", "kept"), [("auto", [0]), ("disable", [])])
def test_logs_of_a_run_without_a_checkpoint_are_cut(tmp_path, mode, kept):
    run = config(tmp_path, trainer__resume_mode=mode)
    torn = [b"\0\0\n", line(1), line(2), b'{"step": 0, "da']  # by a full disk, or a kill
    (tmp_path / "metrics.jsonl").write_bytes(b"".join([line(0), *torn]))
    (tmp_path / "validation").mkdir()
    for step in (0, 2):
        (tmp_path / f"validation/{step}.jsonl").touch()
    rundir.prepare(run, {})
    assert (tmp_path / "metrics.jsonl").read_bytes() == b"".join(map(line, kept))
    assert [int(path.stem) for path in (tmp_path / "validation").iterdir()] == kept
    assert {"versions", "git_commit"} <= json.loads((tmp_path / ENVIRONMENT).read_text()).keys()


def test_another_validation_after_a_resume_is_recorded(tmp_path):
    """Its accuracies do not compare with the earlier ones, and a resume may change it."""
    rundir.prepare(config(tmp_path), {})
    (tmp_path / TRACKER).write_text("2")
    rundir.prepare(config(tmp_path, data__val_max_samples=8), {})
    starts = json.loads((tmp_path / ENVIRONMENT).read_text())["starts"]
    assert [start["changed"] for start in starts] == [{}, {"data.val_max_samples": [-1, 8]}]


def test_a_validation_alone_does_not_rewrite_a_training(tmp_path):
    with rundir.held(config(tmp_path)):
        pass
    before = (tmp_path / "config.yaml").read_bytes()
    with pytest.raises(Refused, match="rpg eval"), rundir.held(config(tmp_path, trainer__val_only=True)):
        pytest.fail("it began")
    assert (tmp_path / "config.yaml").read_bytes() == before
    for _ in range(2):  # in a directory of its own also again
        with rundir.held(config(tmp_path / "eval", trainer__val_only=True)):
            pass


@pytest.mark.parametrize(
    ("mode", "path", "later"),
    [
        ("disable", None, "global_step_30, global_step_20, global_step_10; move that directory aside"),
        ("resume_path", "global_step_10", "global_step_30, global_step_20; move these"),
        ("resume_path", "global_step_30", None),
    ],
)
def test_checkpoints_from_which_a_run_does_not_resume_are_refused(tmp_path, mode, path, later):
    """Otherwise the next automatic resume would go on from the abandoned step 30."""
    for step in (10, 20, 30):
        (tmp_path / f"global_step_{step}").mkdir()
    (tmp_path / TRACKER).write_text("30")
    run = config(tmp_path, trainer__resume_mode=mode, trainer__resume_from_path=path and str(tmp_path / path))
    if later is None:
        rundir.refuse_later_steps(run)
        return
    with pytest.raises(Refused, match=later):
        rundir.refuse_later_steps(run)


def line(step: int) -> bytes:
    return json.dumps({"step": step, "data": {"x": 1.0}}).encode() + b"\n"


def full(descriptor):
    raise OSError(28, "No space left on device")


def test_a_file_is_whole_or_absent(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(tmp_path / "a", "new")
    assert caught.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_metrics_are_continued(tmp_path, monkeypatch):
    """A resumed run validates its last step again, here with another val_kwargs.n, and logs more of that step."""
    from rpg.verl_plugin.patches.file_logger import AppendingFileLogger

    metrics, four = tmp_path / "metrics.jsonl", {"val-core/a/acc/mean@4": 0.5, "val-aux/a/acc/best@4/mean": 0.7}
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(metrics))
    for records in ([(0, {"x": 0.0}), (2, {"x": 2.0, **four})],
                    [(2, {"val-core/a/acc/mean@8": 0.6}), (2, {"x": 9.0}), (3, {"x": 4.0})]):  # fmt: skip
        logger = AppendingFileLogger("p", "e")
        for step, data in records:
            logger.log(data, step)
    kept = [{"x": 0.0}, {"x": 9.0, "val-core/a/acc/mean@8": 0.6}, {"x": 4.0}]
    logged = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert logged == [{"step": step, "data": data} for step, data in zip((0, 2, 3), kept, strict=True)]


def test_a_finished_run_is_not_started_again(tmp_path):
    def run(steps, **settings):
        return config(tmp_path, trainer__total_training_steps=steps, trainer__resume_mode="auto", **settings)

    rundir.prepare(run(6), {})
    assert rundir.finished(run(6)) is None
    (tmp_path / TRACKER).write_text("6")
    message = rundir.finished(run(6))
    assert message.startswith(f"finished at step 6 of 6: {tmp_path}")
    assert rundir.finished(run(7)) is None
    assert rundir.finished(run(6, trainer__val_only=True)) is None
    (tmp_path / "metrics.jsonl").write_text('{"step": 5, "data": {}}\n')  # killed in its last validation
    assert rundir.finished(run(6, trainer__val_before_train=True)) is None
    assert "not validated after step 5 (`rpg eval`" in rundir.finished(run(6, trainer__val_before_train=False))
    (tmp_path / TRACKER).write_text("")  # the disk was full
    assert rundir.finished(run(6)) is None
    for freq in (-1, 0, 20):  # only the log tells; the last one's checkpoints were removed
        assert "step 5 of 5" in rundir.finished(run(5, trainer__save_freq=freq))
    (tmp_path / TRACKER).write_text("6")
    (tmp_path / "metrics.jsonl").unlink()
    with pytest.raises(Refused, match=r"data\.seed=5"):
        rundir.finished(run(6, data__seed=5))
