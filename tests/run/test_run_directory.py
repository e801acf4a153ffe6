"""A run's directory: one living process, one training, complete files."""

import json
import os
import subprocess
import sys

import pytest

from rpg.config import fingerprint
from rpg.diagnostics import Refused
from rpg.files.atomic import write_whole
from rpg.files.integrity import TRACKER, newest_complete
from rpg.run import directory as rundir
from tests.builders.toy_run import small_run as config

HOLD = """
import sys
from pathlib import Path
from rpg.run.directory import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_directory_is_one_process_s(tmp_path):
    directory = tmp_path / "deep/run"
    command, pipe = [sys.executable, "-c", HOLD, str(directory)], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(Refused, match=rf"\b{process.pid}\b"), rundir.locked(directory):
        pytest.fail("held by two")
    assert (directory / rundir.RUN).is_file()
    process.kill()
    process.wait()
    with rundir.locked(directory):
        assert json.loads((directory / rundir.RUN).read_text())["pid"] == os.getpid()


def test_a_refused_run_leaves_no_directory(tmp_path):
    with pytest.raises(Refused), rundir.locked(tmp_path / "a/b"):
        raise Refused([])
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    with pytest.raises(Refused), rundir.locked(tmp_path / "a"):
        raise Refused([])
    assert (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("mode", "steps", "kept"), [("auto", [0, 1, 2], True), ("auto", [0], False), ("disable", [0], True)]
)
def test_a_log_whose_run_left_no_checkpoint_is_kept(tmp_path, mode, steps, kept):
    run = config(tmp_path, trainer__resume_mode=mode)
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(map(line, steps)))
    rundir.prepare(run, {})
    assert [path.read_bytes() for path in tmp_path.glob("metrics.until-*.jsonl")] == [b"".join(map(line, steps))] * kept
    assert (tmp_path / "metrics.jsonl").exists() is not kept
    assert {"versions", "git_commit"} <= json.loads((tmp_path / fingerprint.HISTORY).read_text()).keys()


def test_another_validation_after_a_resume_is_in_the_history(tmp_path):
    """Its accuracies do not compare with the earlier ones, and the fingerprint does not have it."""
    rundir.prepare(config(tmp_path), {})
    (tmp_path / TRACKER).write_text("2")
    rundir.prepare(config(tmp_path, data__val_max_samples=8), {})
    starts = [json.loads(text) for text in (tmp_path / fingerprint.HISTORY).read_text().splitlines()]
    assert [start["changed"] for start in starts] == [{}, {"data.val_max_samples": [-1, 8]}]


def test_the_login_of_a_clusters_address_is_hidden(tmp_path, monkeypatch):
    """tests/e2e/test_two_ranks.py looks for other secrets in all files of a run."""
    monkeypatch.setenv("RAY_ADDRESS", "http://me:password@head:8265")
    assert rundir.environment(config(tmp_path))["ray_address"] == "http://***@head:8265"


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


def test_a_run_that_begins_anew_keeps_the_earlier_one(tmp_path):
    """Including checkpoints, from which a run killed before its first checkpoint would otherwise resume."""
    rundir.put_aside(tmp_path)
    assert list(tmp_path.iterdir()) == []
    for step in (10, 20):
        (tmp_path / f"global_step_{step}/actor").mkdir(parents=True)
    (tmp_path / TRACKER).write_text("20")
    (tmp_path / "metrics.jsonl").write_bytes(line(20))
    (tmp_path / "validation").mkdir()
    for name in ("left_out.jsonl", "history.jsonl", "config.yaml", "environment.json", "fingerprint.json"):
        (tmp_path / name).write_text("{}")
    os.utime(tmp_path / "metrics.jsonl", (2e9, 2e9))  # 2033-05-18
    rundir.put_aside(tmp_path)
    (aside,) = tmp_path.glob("checkpoints.until-203305*")
    described = ["config.yaml", "environment.json", "fingerprint.json"]
    assert sorted(path.name for path in aside.iterdir()) == [*described, "global_step_10", "global_step_20", TRACKER]
    kept = sorted(path.name.split(".")[0] for path in tmp_path.glob("*.until-203305*.jsonl"))
    assert kept == ["history", "left_out", "metrics"]
    assert newest_complete(tmp_path).newest is None
    rundir.put_aside(tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_checkpoints_after_a_chosen_one_are_moved_aside(tmp_path):
    """Otherwise the next automatic resume would go on from the abandoned step 30."""
    for step in (10, 20, 30):
        (tmp_path / f"global_step_{step}").mkdir()
    (tmp_path / TRACKER).write_text("30")
    rundir.abandon(tmp_path, 20)
    assert sorted(path.name for path in tmp_path.glob("global_step_*")) == ["global_step_10", "global_step_20"]
    assert (tmp_path / TRACKER).read_text() == "20"
    assert [path.name for path in tmp_path.glob("checkpoints.until-*/*")] == ["global_step_30"]
    rundir.abandon(tmp_path, 20)
    assert len(list(tmp_path.iterdir())) == 4


def line(step: int) -> bytes:
    return json.dumps({"step": step, "data": {"x": 1.0}}).encode() + b"\n"


@pytest.mark.parametrize(
    "before",
    [
        [line(0), line(1)],
        [line(0), line(1), line(2), b'{"step": 2, "da'],
        [line(0), line(1), b'{"step": 1, "data": null}\n', b'{"step": Infinity, "data": {}}\n', b"[" * 100_000 + b"\n"],
        [line(0), b"\0\0\n", line(1)],
    ],
)
def test_metrics_up_to_the_checkpoint(tmp_path, before, capsys):
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_bytes(b"".join(before))
    rundir.cut(metrics, 1)
    assert metrics.read_bytes() == line(0) + line(1)
    assert bool(capsys.readouterr().err) is (len(before) > 2)


def test_a_file_is_whole_or_absent(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(tmp_path / "a", "new")
    assert caught.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_metrics_are_continued(tmp_path, monkeypatch):
    from rpg.verl_plugin.patches.file_logger import AppendingFileLogger

    metrics = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(metrics))
    for steps in ([0, 1, 2], [2, 3]):  # the second validates before it goes on from step 2
        logger = AppendingFileLogger("p", "e")
        for step in steps:
            logger.log({"x": float(step)}, step)
        logger.finish()
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [0, 1, 2, 3]
    logger = AppendingFileLogger("p", "e")
    logger.log({"x": 9.0, "y": 1.0}, 3)  # something new of the same step
    logger.log({"x": 4.0}, 4)
    logger.finish()
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 1, 2, 3, 4]
    assert records[3]["data"] == {"x": 9.0, "y": 1.0}  # as the samples of the last validation, which verl overwrites
    logger.log({"x": 5.0, "val-core/a/acc/mean@4": 0.5, "val-aux/a/acc/best@4/mean": 0.7}, 5)
    logger = AppendingFileLogger("p", "e")  # resumed with another val_kwargs.n
    logger.log({"val-core/a/acc/mean@8": 0.6}, 5)
    assert json.loads(metrics.read_bytes().splitlines()[-1])["data"] == {"x": 5.0, "val-core/a/acc/mean@8": 0.6}


def test_a_finished_run_is_not_started_again(tmp_path):
    def run(steps, **settings):
        return config(tmp_path, trainer__total_training_steps=steps, trainer__resume_mode="auto", **settings)

    fingerprint.record(tmp_path, run(6), 0, {})
    assert rundir.finished(run(6)) is None
    (tmp_path / TRACKER).write_text("6")
    message = rundir.finished(run(6))
    assert message.startswith(f"finished at step 6 of 6: {tmp_path}\nraise trainer.total_training_steps to go on")
    assert rundir.finished(run(7)) is None
    assert rundir.finished(run(6, trainer__val_only=True)) is None
    (tmp_path / "metrics.jsonl").write_text('{"step": 5, "data": {}}\n')  # killed in its last validation
    assert rundir.finished(run(6, trainer__val_before_train=True)) is None
    (tmp_path / TRACKER).write_text("")  # the disk was full
    assert rundir.finished(run(6)) is None
    (tmp_path / TRACKER).write_text("6")
    (tmp_path / "metrics.jsonl").unlink()
    with pytest.raises(Refused, match=r"data\.seed=5"):
        rundir.finished(run(6, data__seed=5))
