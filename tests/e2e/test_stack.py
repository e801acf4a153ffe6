"""The real stack, nothing replaced: Ray, TransferQueue, verl's V1 trainer, FSDP2 over gloo, vLLM's CPU build."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.tensor  # lets torch.load read the tensors of FSDP2
from safetensors.torch import load_file

from rpg.toy.demo_command import GAIN, accuracy_by_step
from tests.e2e.conftest import PATIENCE, ROOT, TOY

pytestmark = pytest.mark.e2e

# Rollout and actor compute the same numbers in float32, by different kernels: log-probs of magnitude 1 then differ
# by some 1e-6, and their mean, over thousands of tokens, by far less. A bfloat16 actor shows about 1e-4 here, weights
# that were not brought to vLLM the KL of a whole step, above 1e-4. Seen over 60 steps: at most 6e-8, standard deviation
# 2e-8, so that a false alarm is 50 standard deviations away.
ROLLOUT_KL = 1e-6
# The largest difference of a token's probability in a step is a chance quantity with a longer tail: over 34 steps
# 5e-6 to 7e-5, log-normal about 1.1e-5 with a standard deviation of 0.65, so that one step in 10^11 passes this bound
# (and one in 3,000 passes 1e-4). A bfloat16 actor shows 1e-2, the weights of the step before 1e-1.
ROLLOUT_PROBABILITY = 1e-3

# Largest distance of a ratio from 1 where both passes have the same weights, tokens and kernels, if perhaps other
# micro-batches and so other sums: exactly 0 in all steps that were looked at. One optimizer step takes it above 0.1.
SAME_POLICY = 1e-3

RPG_METRICS = [
    "actor/rpg_kl",
    "actor/rpg_clipfrac_high",
    "actor/rpg_clipfrac_low",
    "actor/rpg_clipfrac_c",
    "actor/rpg_ratio_max",
    "actor/rpg_ratio_min",
    "actor/rpg_ratio_mean",
    "actor/pg_clipfrac",
    "actor/ppo_kl",
    "training/off_policy/ess",
    "training/off_policy/kl",
    "training/off_policy/trajectory_staleness/mean",
]


def training_steps(metrics: Path) -> list[dict]:
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [record["data"] for record in records if "actor/pg_loss" in record["data"]]


def assert_weights_reached_vllm(steps: list[dict]) -> None:
    """Rollouts come from the actor's present weights, and those weights do move."""
    for step in steps:
        assert abs(step["rollout_corr/kl"]) < ROLLOUT_KL
        assert step["training/rollout_probs_diff_max"] < ROLLOUT_PROBABILITY
    assert max(step["actor/grad_norm"] for step in steps) > 1e-3


def test_demo_learns_on_one_rank(start):
    """`rpg demo`, as scripts/demo.sh calls it: the accuracy rises by 0.30, files and checkpoints are there.

    It is measured at both ends alone: 1024 answers take 40 s.
    """
    directory = TOY / "demo"
    run = start(command=[sys.executable, "-m", "rpg.cli", "demo", "--dir", str(TOY), "trainer.test_freq=30"])
    assert run.wait(3 * PATIENCE) == 0, run.text()[-3000:]
    assert run.processes() == []

    records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    accuracies = [accuracy for _, accuracy in accuracy_by_step(directory / "metrics.jsonl")]
    assert len(accuracies) == 2
    assert accuracies[-1] - accuracies[0] >= GAIN  # how likely a false alarm is: rpg/toy/demo_command.py
    assert [r["step"] for r in records] == list(range(len(records)))

    steps = training_steps(directory / "metrics.jsonl")
    assert_weights_reached_vllm(steps)
    for step in steps:
        assert set(RPG_METRICS) <= set(step)
    # two mini-batches a step: the second meets a policy that the first has moved, by far more than the bound above
    assert max(step["actor/rpg_kl"] for step in steps) > 100 * ROLLOUT_KL
    assert (directory / "accuracy.png").stat().st_size > 1000
    assert {"versions", "git_commit", "devices"} <= set(json.loads((directory / "environment.json").read_text()))
    last = (directory / "latest_checkpointed_iteration.txt").read_text()
    assert int(last) == len(steps)
    assert list((directory / f"global_step_{last}" / "actor").glob("model_world_size_1_rank_0.pt"))


# Without our socket names they meet now and then, not always: test_rollout_socket.py looks at the names themselves.
@pytest.mark.full
def test_two_runs_on_one_machine(start):
    """Each with a Ray of its own, whose first job has the same id: neither waits for the other or gets its weights."""
    brief = ["trainer.total_training_steps=3", "trainer.test_freq=-1", "trainer.val_before_train=false"]
    runs = [start(*brief, "trainer.save_freq=-1", f"actor_rollout_ref.actor.optim.lr={lr}") for lr in (1e-3, 3e-4)]
    for run in runs:
        assert run.wait() == 0, run.text()[-3000:]
        steps = training_steps(run.directory / "metrics.jsonl")
        assert len(steps) == 3
        assert_weights_reached_vllm(steps)


SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef-planted-for-wandb-0123",
    "HF_TOKEN": "hf_0123456789abcdefplantedforthehub",
    "RAY_AUTH_TOKEN": "0123456789abcdef-planted-for-ray-0123",
    "HF_ENDPOINT": "https://user:planted-login-0123456789@hub.invalid",
}


def test_two_ranks_with_two_vllm_replicas(start):
    """One mini-batch a step: the policy that is updated is the one that sampled, so every ratio is 1.

    And what has to hold of any local run: no secret of its environment in a file, no socket but on the loopback.
    """
    run = start(
        "trainer.n_gpus_per_node=2",
        "trainer.logger=[console,file,wandb]",
        "trainer.total_training_steps=3",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        "data.train_batch_size=16",
        "actor_rollout_ref.actor.ppo_mini_batch_size=16",
        WANDB_MODE="offline",
        **SECRETS,
    )
    run.wait_for_step(1)
    listeners, ray_logs = run.listeners(), run.ray_logs()
    assert run.wait() == 0, run.text()[-3000:]
    assert run.processes() == []
    assert_on_the_loopback(listeners)
    assert_nowhere_in_files([run.directory, *ray_logs])
    steps = training_steps(run.directory / "metrics.jsonl")
    assert len(steps) == 3
    assert_weights_reached_vllm(steps)
    for step in steps:
        assert step["actor/rpg_ratio_max"] == pytest.approx(1, abs=SAME_POLICY)
        assert step["actor/rpg_ratio_min"] == pytest.approx(1, abs=SAME_POLICY)
        assert step["training/off_policy/ess"] == pytest.approx(1, abs=SAME_POLICY)
        assert abs(step["training/off_policy/kl"]) < ROLLOUT_KL
        assert step["actor/pg_clipfrac"] == 0
    assert len(list((run.directory / "global_step_3" / "actor").glob("model_world_size_2_rank_*.pt"))) == 2


def assert_on_the_loopback(listeners: list[tuple[str, str]], ranks: tuple[str, ...] = ("ray::WorkerDict",)) -> None:
    """All sockets but those of torch's stores, which the first of each kind of ranks opens on all interfaces
    (docs/reliability.md)."""
    assert {"raylet", "gcs_server"} <= {Path(process).name for process, _ in listeners}
    assert len(listeners) > 20
    strange = [(process, ip) for process, ip in listeners if not ip.removeprefix("::ffff:").startswith(("127.", "::1"))]
    assert [process for process, _ in strange if not process.startswith(ranks)] == []
    assert len(strange) <= len(ranks)


def assert_nowhere_in_files(directories: list[Path]) -> None:
    """No file below holds a secret: configuration, metrics, logs of all that ran, W&B's files."""
    planted = [value.encode() for value in (*SECRETS.values(), "planted-login-0123456789")]
    for directory in directories:
        files = [path for path in directory.rglob("*") if path.is_file()]
        assert len(files) > 5
        assert [path for path in files if any(value in path.read_bytes() for value in planted)] == []


def test_plain_verl_with_the_plugin(start, tmp_path):
    """docs/plain_verl.sh: `python -m verl.trainer.main_ppo` with nothing of ours but what pip installed."""
    run = start(
        command=["bash", str(ROOT / "docs/plain_verl.sh"), f"hydra.run.dir={tmp_path / 'hydra'}"],
        MODEL_PATH=str(TOY / "model"),
        TRAIN_FILE=str(TOY / "toy_train.parquet"),
        TEST_FILE=str(TOY / "toy_test.parquet"),
        CKPTS_DIR=str(tmp_path / "plain"),
        VERL_FILE_LOGGER_PATH=str(tmp_path / "plain.jsonl"),
    )
    assert run.wait() == 0, run.text()[-3000:]
    steps = training_steps(tmp_path / "plain.jsonl")
    assert len(steps) == 2
    assert_weights_reached_vllm(steps)
    for step in steps:
        assert {name for name in RPG_METRICS if name.startswith("actor/")} <= set(step)  # the others: RPGTrainer's
        assert step["actor/rpg_ratio_max"] == pytest.approx(1, abs=SAME_POLICY)
    before = load_file(TOY / "model" / "model.safetensors")
    (shard,) = (tmp_path / "plain").glob("global_step_2/actor/model_world_size_1_rank_0.pt")
    after = torch.load(shard, weights_only=True)
    name = "model.layers.0.mlp.up_proj.weight"
    moved = after[name].full_tensor() if hasattr(after[name], "full_tensor") else after[name]
    assert (moved - before[name]).abs().max() > 1e-5  # AdamW at 3e-4 moves each weight by about its step size


def test_installed_entry_points_are_found():
    """The plugin comes through the installed distribution, in a process that never imports rpg itself."""
    code = (
        "import verl; from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as losses;"
        "assert 'rpg_rf_urkl_clip_ppo' in losses"
    )
    subprocess.run([sys.executable, "-c", code], cwd="/", check=True, timeout=PATIENCE)
