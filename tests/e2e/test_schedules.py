"""Rollouts a batch ahead of training, pi_old = behavior, a moving reference: killed and resumed.

One run tests all of this, because each start takes most of a minute. Its responses are long and equal in length, so
that more are in progress than training waits for: these continue with the next policy and mix two policies.
"""

import os
import random
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rpg.files import manifest
from tests.e2e import sampled, short_run
from tests.e2e.conftest import PATIENCE, ROOT, Run

pytestmark = pytest.mark.e2e

SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_async.sh"  # schedule=async, pi_old=behavior
STALENESS, SPANS = "training/off_policy/trajectory_staleness", "training/off_policy/trajectory_spans"
PROMPTS, ANSWERS, STEPS = 32, 4, 6
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    score = sum(map(ord, solution_str)) % 8 / 8
    return {"score": score, "acc": score, "pred": ""}
"""
TOLERANCE = 1e-3  # of a log-prob of vLLM (sampled.py)


def kill(run: Run, step: int) -> None:
    """Kill a run's driver after this step, and tear the last line of its metrics as a full disk does."""
    run.wait_for_step(step)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    assert run.survivors() == []
    assert max(record["step"] for record in run.metrics()) < STEPS
    with open(run.directory / "metrics.jsonl", "a") as stream:
        stream.write('{"step": 4, "da')


def newest(directory: Path) -> int:
    """Return the step of the newest complete checkpoint, which has all parts."""
    step = max(int(path.parent.name.rpartition("_")[2]) for path in directory.glob(f"global_step_*/{manifest.NAME}"))
    parts = {name.split("/")[0] for name in manifest.read(directory / f"global_step_{step}")}
    assert parts >= {"actor", "data.pt", "reference", "transfer_queue"}
    return step


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.full)])
def test_asynchronous_killed_and_started_again(start, tmp_path, kills):
    """Killed after step 2; with kills=2, which takes a minute more, also after a random step of the resumed run."""
    directory, reward = tmp_path / "run", tmp_path / "reward.py"
    reward.write_text(REWARD)  # what nothing ends cannot be right: any reward that differs will do
    command = short_run.command(
        directory,
        STEPS,
        "trainer.save_freq=1",
        "reference=every_k",
        "rpg.reference.every_k=2",
        f"rpg.reward={reward}",
        f"data.train_batch_size={PROMPTS}",
        f"actor_rollout_ref.rollout.n={ANSWERS}",
        # a quarter of the answers that are asked for at once: when the last of a batch are done and have still to be
        # scored and stored, the next batch has twice as many before it, and is under way when training begins
        f"actor_rollout_ref.rollout.max_num_seqs={PROMPTS * ANSWERS // 2}",
        "actor_rollout_ref.rollout.ignore_eos=true",
        "data.max_response_length=128",
        # one optimizer step a batch, on all of it: its policy is that of the checkpoint before, its metrics the batch's
        f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768",
        "actor_rollout_ref.actor.optim.lr=2e-3",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
        script=SCRIPT,
    )
    first = start(command=command)
    first.directory = directory
    own = [directory / name for name in ("environment.json", "config.yaml")]
    until = time.monotonic() + PATIENCE
    while not own[-1].is_file() and time.monotonic() < until:  # then it holds the directory
        time.sleep(0.1)
    before = [path.read_bytes() for path in own]
    second = start(command=command)
    assert second.wait() == 2  # the directory is in use
    assert str(first.process.pid) in second.text()
    kill(first, 2)
    assert [path.read_bytes() for path in own] == before
    resumed = [newest(directory)]
    if kills == 2:
        third = start(command=command)
        third.directory = directory
        after = resumed[0] + 1  # a step of its own
        kill(third, random.randint(after, max(after, STEPS - 2)))
        resumed.append(newest(directory))

    again = start(command=command)
    assert again.wait() == 0, again.text()[-3000:]
    again.directory = directory
    assert again.processes() == []
    starts = short_run.starts(directory)
    assert [(one["after_step"], one["changed"]) for one in starts] == [(step, {}) for step in (0, *resumed)]
    # the batch that rollouts were ahead by is taken up, and no other asked for in its place
    assert f"Restored {PROMPTS} training prompt groups" in again.text()
    assert f"{PROMPTS} restored prompt groups already fill the {PROMPTS}-prompt prefetch window" in again.text()
    records = {record["step"]: record["data"] for record in again.metrics()}
    assert [record["step"] for record in again.metrics()] == list(range(1, STEPS + 1))
    # the pass for old log-probs is gone, which measures the entropy
    assert not any("actor/entropy" in data for data in records.values())
    # renewed at the batch after two optimizer steps; the kills are not to be seen in it
    assert [data["reference/age"] for data in records.values()] == [1, 2, 1, 2, 1, 2]
    assert [data["reference/updates"] for data in records.values()] == [0, 0, 1, 1, 2, 2]

    policies = sampled.Policies(directory)
    of_two, groups = 0, Counter()
    for step, data in records.items():
        responses = sampled.trained_on(directory, step)
        assert data["training/left_out_responses"] == data["actor/skipped_steps"] == 0
        groups.update(response.group for response in responses)
        assert len(responses) == PROMPTS * ANSWERS  # those of the step before a kill are gone
        assert max(step - 1 - response.last for response in responses) == data[f"{STALENESS}/max"]
        assert max(response.last - response.first + 1 for response in responses) == data[f"{SPANS}/max"]
        oldest = min(response.first for response in responses)
        log_probs = {number: policies.log_probs(number, responses) for number in range(oldest, step)}
        ratios = []
        for row, response in enumerate(responses):
            assert torch.equal(response.old_log_probs, response.rollout_log_probs)  # pi_old is what sampled
            mine = {number: rows[row] for number, rows in log_probs.items()}
            wrote = sampled.written_by(response, mine, TOLERANCE)
            assert wrote is not None, f"step {step}, resumed after {resumed}: {response}"
            by_the_last = sampled.written_by(replace(response, first=response.last), mine, TOLERANCE)
            of_two += len(set(wrote)) > 1 and by_the_last is None
            ratios.append((mine[step - 1] - response.rollout_log_probs).exp())
        ratio = torch.cat(ratios)
        for name, value in {"max": ratio.max(), "min": ratio.min(), "mean": ratio.mean()}.items():
            assert data[f"actor/rpg_ratio_{name}"] == pytest.approx(value.item(), rel=TOLERANCE)
    assert set(groups.values()) == {ANSWERS}  # each answer of each prompt once
    # tokens of two policies in one response, each with the log-prob of the one that wrote it, which no single one gives
    assert of_two > 0
    assert any(data[f"{STALENESS}/max"] > 0 for data in records.values())
    assert max(data["actor/rpg_ratio_max"] for data in records.values()) > 1 + 10 * TOLERANCE
