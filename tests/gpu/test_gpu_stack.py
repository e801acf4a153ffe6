"""The toy task on GPUs, asynchronous or on several: Ray, FSDP2 over NCCL, vLLM's CUDA build, weights by CUDA IPC.

scripts/check_gpu.sh itself trains on one GPU, synchronously, killed and resumed.
"""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from rpg.files.integrity import newest_complete
from tests.e2e import short_run
from tests.e2e.conftest import PATIENCE, Run
from tests.e2e.test_stack import RPG_METRICS, training_steps
from tests.gpu import toys

pytestmark = pytest.mark.gpu

# bfloat16 moves a log-prob by 0.045 at most (docs/gpu.md), and the KL of two policies by half the square of that
ROLLOUT_KL = 2e-3

FLASH = importlib.util.find_spec("flash_attn") is not None
# the shapes of one small GPU instead of eight large ones
ONE_GPU = [
    "profile=gpu",
    "trainer.n_gpus_per_node=1",
    "trainer.logger=[console,file]",
    "rpg.stall_limit=600",
    "rpg.time_limit=1800",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
    "actor_rollout_ref.rollout.max_num_seqs=256",
    "actor_rollout_ref.rollout.calculate_log_probs=true",
    f"data.train_files={toys.DIRECTORY / 'toy_train.parquet'}",
    f"data.val_files={toys.DIRECTORY / 'toy_test.parquet'}",
    "+actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls=tests.e2e.rollout_weights.Extension",
]


def settings(family: str, *overrides: str) -> list[str]:
    attention = [] if FLASH else ["attention=sdpa"]
    return [*ONE_GPU, *attention, f"actor_rollout_ref.model.path={toys.model(family)}", *overrides]


def assert_healthy(run: Run, steps: int) -> list[dict]:
    """Assert that every step is logged once with finite metrics, and no files are left; return the training metrics."""
    assert run.processes() == []
    records = run.metrics()
    assert [record["step"] for record in records if record["step"]] == list(range(1, steps + 1))
    found = training_steps(run.directory / "metrics.jsonl")
    assert len(found) == steps
    for step in found:
        assert set(RPG_METRICS) <= set(step)
        assert all(math.isfinite(value) for value in step.values() if isinstance(value, float))
    assert max(step["actor/grad_norm"] for step in found) > 1e-3
    newest = newest_complete(run.directory).newest
    assert newest.name == f"global_step_{steps}"
    return found


def assert_weights_are(pulled: Path, directory: Path, step: int) -> None:
    """Assert that vLLM's last weights equal the actor's of this step, rounded to its dtype."""
    last = max(pulled.glob("0/*.pt"), key=lambda path: int(path.stem))
    rollout = {name: tensor.cpu() for name, tensor in torch.load(last).items()}
    dtype = rollout["model.norm.weight"].dtype
    actor = {name: tensor.cpu().to(dtype) for name, tensor in short_run.actor(directory, step).items()}
    assert short_run.rolls_out_with(rollout, actor)


def test_qwen3_asynchronous(start, tmp_path):
    """Rollouts while the batch before is trained on, and exact weights against the policy that sampled."""
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    steps = 6
    run = start(
        *settings("qwen3", "schedule=async", "pi_old=behavior"), f"trainer.total_training_steps={steps}",
        f"trainer.save_freq={steps}", "trainer.test_freq=-1", "trainer.val_before_train=false",
        RPG_TEST_ROLLOUT_WEIGHTS=str(pulled),
    )  # fmt: skip
    assert run.wait(PATIENCE) == 0, run.text()[-4000:]
    found = assert_healthy(run, steps)
    # older rollouts than weights: the ratio is the whole distance
    assert max(step["actor/rpg_ratio_max"] - 1 for step in found) > ROLLOUT_KL
    seconds, kl = found[-1]["timing_s/step"], max(step["actor/rpg_kl"] for step in found)
    print(f"figure: asynchronous, pi_old=behavior: {seconds:.2f} s a step; largest KL {kl:.3f}", flush=True)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_many_gpus(start, tmp_path):
    """2, 4 or 8 GPUs of the machine, which divide the 128 responses of a mini-batch: NCCL, one vLLM a GPU, a moving
    reference, and with flash-attn Ulysses over two."""
    gpus, pulled = 1 << (torch.cuda.device_count().bit_length() - 1), tmp_path / "pulled"
    pulled.mkdir()
    size = f"ulysses_sequence_parallel_size={2 if FLASH else 1}"
    run = start(*settings(
        "qwen2", f"trainer.n_gpus_per_node={gpus}", "trainer.total_training_steps=4", "trainer.save_freq=4",
        f"actor_rollout_ref.actor.fsdp_config.{size}", f"actor_rollout_ref.ref.fsdp_config.{size}",
        "reference=every_k", "rpg.reference.every_k=4", "trainer.test_freq=-1", "trainer.val_before_train=false",
    ), RPG_TEST_ROLLOUT_WEIGHTS=str(pulled))  # fmt: skip
    assert run.wait(PATIENCE) == 0, run.text()[-4000:]
    found = assert_healthy(run, 4)
    assert_weights_are(pulled, run.directory, 4)
    assert [step["reference/updates"] for step in found] == [0, 0, 1, 1]
    seconds = sorted(step["timing_s/step"] for step in found[1:])
    kl = max(abs(step["rollout_corr/kl"]) for step in found)
    apart = max(step["training/rollout_probs_diff_max"] for step in found)
    print(f"figure: flash-attn: {FLASH}; {seconds[len(seconds) // 2]:.2f} s a step; rollout KL at most {kl:.1e}, "
          f"probability {apart:.3f}; ratio {min(step['actor/rpg_ratio_min'] for step in found):.3f} to "
          f"{max(step['actor/rpg_ratio_max'] for step in found):.3f}", flush=True)  # fmt: skip
