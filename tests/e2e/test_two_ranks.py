"""One run of the real stack on two ranks with a vLLM replica each, and many questions to it.

Schedule-free AdamW, a moving reference, a reward function that fails, secrets in the environment.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.e2e import short_run
from tests.e2e.conftest import TOY
from tests.e2e.test_stack import ROLLOUT_PROBABILITY, SAME_POLICY, assert_on_the_loopback

pytestmark = pytest.mark.e2e

# One mini-batch an iteration, so that verl's metrics are those of the first mini-batch.
STEPS, K, PROBLEMS = 3, 2, 64
BETA1 = 0.9  # verl's default, AdamW's and schedule-free's alike
REWARD = """
import time
from rpg.rewards import compute_score as right

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    rest = int(ground_truth) % 20
    if rest == 0:
        raise KeyError("no such problem")
    if ground_truth == "101":
        time.sleep(3600)
    if rest in (1, 2, 3):
        return {1: {"score": float("nan"), "acc": 0.0, "pred": ""}, 2: "good", 3: None}[rest]
    return right(data_source, solution_str, ground_truth)
"""
SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef-planted-for-wandb-0123",
    "HF_TOKEN": "hf_0123456789abcdefplantedforthehub",
    "RAY_AUTH_TOKEN": "0123456789abcdef-planted-for-ray-0123",
    "HF_ENDPOINT": "https://user:planted-login-0123456789@hub.invalid",
}


@dataclass(frozen=True)
class Ended:
    """The finished run: its metrics, listening sockets, logs, and vLLM's weights."""

    directory: Path
    metrics: list[dict]
    listeners: list[tuple[str, str]]
    ray_logs: list[Path]
    pulled: Path

    def rollout(self, step: int, replica: int = 0) -> dict[str, torch.Tensor]:
        """Return a replica's weights after a step; 0: before the first."""
        return torch.load(self.pulled / str(replica) / f"{step}.pt")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Ended:
    directory, pulled = tmp_path_factory.mktemp("run") / "run", tmp_path_factory.mktemp("pulled")
    directory.mkdir()
    (pulled / "reward.py").write_text(REWARD)
    run = short_run.begin(
        directory,
        STEPS,
        "trainer.n_gpus_per_node=2",
        "trainer.logger=[console,file,wandb]",
        "optim=schedulefree",
        "actor_rollout_ref.actor.optim.lr=3e-3",
        "reference=every_k",
        f"rpg.reference.every_k={K}",
        "trainer.save_freq=1",
        "trainer.test_freq=1",
        f"data.val_max_samples={PROBLEMS}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=32",
        "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        "+actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls=tests.e2e.rollout_weights.Extension",
        f"rpg.reward={pulled / 'reward.py'}",
        "rpg.reward_limit=5",
        "rpg.left_out_limit=0.9",
        WANDB_MODE="offline",
        RPG_TEST_ROLLOUT_WEIGHTS=str(pulled),
        **SECRETS,
    )
    try:
        run.wait_for_step(1)
        listeners, ray_logs = run.listeners(), run.ray_logs()
        assert run.wait() == 0, run.text()[-4000:]
        assert run.processes() == []
    finally:
        run.end()
    return Ended(directory, short_run.metrics(directory), listeners, ray_logs, pulled)


def test_only_torchs_store_listens_to_the_network(run):
    assert_on_the_loopback(run.listeners)


def test_no_file_holds_a_secret(run):
    """Checks configuration, metrics, all logs, and W&B's files."""
    planted = [value.encode() for value in (*SECRETS.values(), "planted-login-0123456789")]
    assert list(run.directory.glob("**/*.wandb"))
    for where in (run.directory, *run.ray_logs):
        files = [path for path in where.rglob("*") if path.is_file()]
        assert len(files) > 5
        assert [path for path in files if any(value in path.read_bytes() for value in planted)] == []


def test_responses_without_a_reward_are_left_out_and_counted(run):
    """Validation counts them as wrong."""
    notes = [json.loads(line) for line in (run.directory / "left_out.jsonl").read_text().splitlines()]
    counted = {record["step"]: record["training/left_out_responses"] for record in run.metrics}
    assert sum(counted.values()) > 0
    for record in run.metrics:
        # the validation after a step is noted under it
        failed = sum(note["step"] == record["step"] for note in notes) - counted[record["step"]]
        assert 0 < failed < PROBLEMS
        scored = record["val-aux/toy_sum/acc_success_only/mean@1"] * (PROBLEMS - failed)
        assert record["val-core/toy_sum/acc/mean@1"] * PROBLEMS == pytest.approx(scored)
    assert max(record["val-core/toy_sum/acc/mean@1"] for record in run.metrics) > 0
    for reason in ("KeyError: 'no such problem'", "score=nan", "score='good'", "score=None"):
        assert any(reason in note["why"] for note in notes), reason
    assert {record["actor/skipped_steps"] for record in run.metrics} == {0}


def test_both_replicas_of_vllm_roll_out_with_x_which_is_not_y(run):
    for step in range(1, STEPS + 1):
        x, rollout = short_run.actor(run.directory, step), run.rollout(step)
        assert short_run.rolls_out_with(rollout, x)
    other = run.rollout(STEPS, replica=1)
    assert other.keys() == rollout.keys()
    assert all(torch.equal(other[name], tensor) for name, tensor in rollout.items())
    saved = short_run.optimizer(run.directory, STEPS)
    z = [state["z"].to_local() for state in saved["state"].values()]
    name, number = next((n, i) for i, n in enumerate(x) if n.endswith("0.self_attn.o_proj.weight"))
    of_rank_0 = x[name][: len(z[number])]
    y = torch.lerp(of_rank_0, z[number], 1 - BETA1)
    assert y.shape == of_rank_0.shape
    # a tenth of the way to z; rounding is 4e-9 at weights of 0.05
    assert (y - rollout[name][: len(y)]).abs().max() > 1e-6


def test_checkpoints_hold_x_for_hugging_face_and_the_whole_optimizer(run):
    x = short_run.actor(run.directory, STEPS)
    exported = load_file(run.directory / f"global_step_{STEPS}" / "actor" / "huggingface" / "model.safetensors")
    for name, tensor in exported.items():
        # verl writes this copy in bfloat16
        assert torch.equal(tensor.bfloat16(), x[name].bfloat16()), name
    group = short_run.optimizer(run.directory, STEPS)["param_groups"][0]
    assert (group["k"], group["train_mode"], group["warmup_steps"]) == (STEPS, False, 10)
    # optimizer steps 1, 2 and 3 of a warm-up of ten, which applies once
    assert [record["actor/lr"] for record in run.metrics] == pytest.approx([3e-3 * n / 10 for n in (1, 2, 3)])


def test_the_first_ratio_is_not_one_where_x_is_not_y(run):
    """w = pi_y / pi_x. x = y at the start and after one step (x_1 = z_1), but not later."""
    apart = [record["actor/rpg_ratio_max"] - record["actor/rpg_ratio_min"] for record in run.metrics]
    assert max(apart[:2]) < SAME_POLICY < apart[2]


def test_the_reference_moves_after_k_steps(run):
    # K = 2 is reached within the second iteration, so the third begins with an update
    assert [record["reference/age"] for record in run.metrics] == [1, 2, 1]
    assert [record["reference/updates"] for record in run.metrics] == [0, 0, 1]
    assert run.metrics[0]["reference/kl_ema"] == pytest.approx(0, abs=1e-9)  # pi_old is the reference
    assert run.metrics[1]["reference/kl_ema"] > 1e-7
    assert run.metrics[2]["reference/kl_ema"] == pytest.approx(0, abs=1e-9)
    first, last = short_run.reference(run.directory, 1), short_run.reference(run.directory, 3)
    assert (last["state"]["age"], last["state"]["updates"]) == (1, 1)
    initial, x = load_file(TOY / "model" / "model.safetensors"), short_run.actor(run.directory, 2)
    assert all(torch.equal(first["shards"][name], tensor) for name, tensor in initial.items())
    assert all(torch.equal(last["shards"][name], tensor) for name, tensor in x.items())


def test_rollouts_and_old_log_probs_are_of_one_policy(run):
    assert max(record["training/rollout_probs_diff_max"] for record in run.metrics) < ROLLOUT_PROBABILITY
