"""The monitor: its errors and those of the import server stop the run."""

import io
import json
import signal

import pytest

from rpg.files.atomic import STATUS
from rpg.run.monitor import INTERRUPT, Monitor
from rpg.run.signals import FAILED, TIMED_OUT
from rpg.verl_plugin.cpu.preload import Preloaded
from tests.builders.toy_run import run_config

LIMITS = {"rpg.stall_limit": None, "rpg.time_limit": None, "rpg.console": "progress"}
SIZES = {"data.train_batch_size": 64, "actor_rollout_ref.rollout.n": 4}
NINE = {"trainer.total_training_steps": 9, "trainer.resume_mode": "disable"}


@pytest.fixture
def interrupts():
    received: list[int] = []
    before = signal.signal(INTERRUPT, lambda number, frame: received.append(number))
    yield received
    signal.signal(INTERRUPT, before)


@pytest.mark.parametrize(
    ("limits", "metrics", "code", "reason"),
    [
        ({}, "[]\n", FAILED, "TypeError"),
        ({"rpg.stall_limit": 0.1}, "", TIMED_OUT, "rpg.stall_limit"),
        ({"rpg.time_limit": 0.1}, "", TIMED_OUT, "rpg.time_limit"),
        ({}, None, FAILED, "broken_module"),
    ],
)
def test_what_ends_a_run(interrupts, tmp_path, monkeypatch, limits, metrics, code, reason):
    """metrics: written while the monitor runs; None: a module of rpg.preload cannot be imported."""
    (tmp_path / "broken_module.py").write_text("import no_such_part\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    server = Preloaded(["json", "broken_module"], []) if metrics is None else None
    run = run_config({**LIMITS, **limits, **NINE})
    terminal = io.StringIO()
    monitor = Monitor(run, tmp_path / "metrics.jsonl", terminal, server.failure if server else lambda: None)
    monitor.start()
    (tmp_path / "metrics.jsonl").write_text(metrics or "")
    monitor.join(timeout=120)
    monitor.stop()
    if server:
        server.close()
    assert monitor.verdict.code == code
    assert reason in monitor.verdict.reason
    assert interrupts == [INTERRUPT]
    assert terminal.getvalue() == ""


def test_a_file_system_that_fails_for_a_moment_ends_no_run(tmp_path, monkeypatch):
    monitor = Monitor(run_config({**LIMITS, **NINE}), tmp_path / "metrics.jsonl", io.StringIO(), lambda: None)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "data": {}}\n')
    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "read_bytes", lambda path: (_ for _ in ()).throw(OSError(116, "stale handle")))
        assert not monitor._read(0.0)
    assert monitor._read(0.0)
    assert monitor.progress == "step 1 of 9"


def shown(tmp_path, records: list[dict], **settings) -> tuple[str, Monitor]:
    """Return what a run whose log has these steps shows without a terminal, and its monitor."""
    (tmp_path / "metrics.jsonl").unlink(missing_ok=True)
    run = run_config({**LIMITS, **NINE, **settings})
    monitor = Monitor(run, tmp_path / "metrics.jsonl", terminal := io.StringIO(), lambda: None)
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate(records, 1)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    monitor.start()
    monitor.stop()
    assert all(len(line) <= 80 for line in terminal.getvalue().splitlines() if str(tmp_path) not in line)
    return terminal.getvalue(), monitor


def test_progress_without_a_terminal(tmp_path):
    """The reward before filtering, which filtered runs log; verl's score where the reward function returns no acc."""
    filtered = {"critic/score/mean": 0.5, "critic/score_before_filtering/mean": -0.25, "val-core/x/acc/mean@1": 1}
    text, monitor = shown(tmp_path, [{}, filtered])
    assert all(words in text for words in ("step 2/9", "acc 1.000 reward -0.25"))
    assert monitor._progress.tasks[0].description == "step"  # of an evaluation, too, which logs at its end
    text = shown(tmp_path, [{"critic/score/mean": 0.5, "val-core/x/reward/mean@1": -0.4}])[0]
    assert "test score -0.400 reward +0.50" in text


def test_a_metric_that_is_not_a_number_does_not_end_the_run(tmp_path):
    """An advantage or log-prob that is NaN skips an optimizer step; the logger writes such metrics as null."""
    step = dict.fromkeys(("critic/advantages/max", "critic/advantages/min", "actor/rpg_kl", "val-core/x/acc/mean@1"))
    text, monitor = shown(tmp_path, [{**step, "critic/score/mean": 0.5, "actor/pg_clipfrac": 0.1}])
    assert monitor.verdict is None
    assert "reward +0.50 clip 10.0%" in text


def test_the_validation_that_begins_a_resumed_run_is_shown(tmp_path):
    """It is added to the record of the last step (file_logger.py), whose other metrics are the earlier start's."""
    log, earlier = tmp_path / "metrics.jsonl", {"training/left_out_responses": 5, "critic/score/mean": 0.5}
    log.write_text(json.dumps({"step": 1, "data": earlier}) + "\n")
    monitor = Monitor(run_config({**LIMITS, **NINE}), log, terminal := io.StringIO(), lambda: None)
    assert not monitor._read(1.0)
    validation = {"val-core/toy/acc/mean@1": 0.25, "validation/left_out_responses": 1}
    log.write_text(json.dumps({"step": 1, "data": earlier | validation}) + "\n")
    assert monitor._read(2.0)
    assert "acc 0.250" in terminal.getvalue()
    assert "0 responses of the training and 1 of validations" in monitor.left_out
    assert not monitor._read(3.0)


def test_responses_without_a_reward_are_told(tmp_path):
    missing = {"training/left_out_responses": 97, "validation/left_out_responses": 3}
    step = {"critic/score/mean": 0.49, "actor/rpg_kl": 1e-3, "val-core/x/acc/mean@1": 0.191}
    text, monitor = shown(tmp_path, [{**step, **missing}, {**step, "training/left_out_responses": 1}], **SIZES)
    words = " ".join(text.split())
    assert "acc 0.191 reward +0.49 100 without reward" in words
    assert "step 1: 97 of 256 responses have no reward and are left out of the reward and of the update:" in words
    assert "step 1: 3 responses have no reward and count as wrong in the validation's accuracy:" in words
    assert words.count("warning") == 2  # once each
    assert monitor.left_out.startswith("warning: 98 responses of the training and 3 of validations had no reward")
    assert monitor.left_out.endswith("left_out.jsonl")
    assert shown(tmp_path, [step])[1].left_out == ""


def test_rewards_that_teach_nothing_are_told_once(tmp_path):
    def step(reward, advantage):
        return {"critic/score/max": reward, "critic/score/min": 0.0, "critic/score/mean": reward / 2,
                "critic/advantages/max": advantage, "critic/advantages/min": -advantage}  # fmt: skip

    nothing, groups, good = step(0.0, 0.0), step(1.0, 0.0), step(1.0, 0.5)
    for steps, said in (
        ([nothing, good, nothing], None),
        ([good, *[nothing] * 3], "steps 2 and 3: every response got the reward 0, so nothing can be learned"),
        ([groups, groups], "steps 1 and 2: rewards are equal in every group, so nothing can be learned"),
    ):
        words = " ".join(shown(tmp_path, steps, **{"reward.custom_reward_function.path": None})[0].split())
        assert words.count("nothing can be learned") == (said is not None)
        assert (said or "") in words


def test_rollouts_that_cannot_sample_every_token_are_told_at_the_first_step(tmp_path):
    low, whole = {"training/off_policy/mass": 0.9466}, {"training/off_policy/mass": 1.0015}
    for steps, schedule, said in (
        ([low, low], "sync", 1),
        ([whole, low], "sync", 0),  # noise, of a policy that has moved
        ([{}, low], "sync", 1),  # a validation first
        ([low], "colocate_async", 0),
    ):
        for console in ("full", "progress"):
            text = shown(tmp_path, steps, **{"trainer.v1.trainer_mode": schedule, "rpg.console": console})[0]
            assert text.count("mass=0.9466") == said


def test_groups_that_are_dropped_are_told(tmp_path):
    run = run_config({**LIMITS, **NINE, "algorithm.filter_groups.metric": "acc"})
    monitor = Monitor(run, tmp_path / "metrics.jsonl", io.StringIO(), lambda: None)
    assert monitor._status() == ("starting", "Ray, FSDP2, vLLM")
    for status, told in (
        (("validation", 0, 0), ("validation", "")),
        (("rollout", 5, 0), ("rollout", "5/64 groups")),
        (("rollout", 5, 300), ("rollout", "5/64 groups, 300 dropped (equal acc)")),
        (("update", 0, 300), ("update", "")),
    ):
        written = dict(zip(("phase", "groups", "dropped"), status, strict=True), wanted=64)
        (tmp_path / STATUS).write_text(json.dumps(written))
        assert monitor._status() == told
    monitor.start()
    monitor.stop()
    assert not (tmp_path / STATUS).exists()
