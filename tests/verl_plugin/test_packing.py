"""The training path of the gpu profiles, over gloo: packed it computes what the cpu profile does unpacked."""

import pytest
import torch
from packing import FP32, Worker, model_directory
from tiny_fsdp import on_ranks

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

SDPA = "actor_rollout_ref.model.override_config.attn_implementation=sdpa"
VARIANTS = {
    "cpu": ["profile=cpu"],
    "gpu": ["profile=gpu", SDPA, *FP32],  # flash attention runs on GPUs alone
    "gpu_bf16": ["profile=gpu", SDPA],
    "gpu_sdpa": ["profile=gpu_sdpa", *FP32],
    "gpu_sdpa_bf16": ["profile=gpu_sdpa"],
}
# Largest difference of a log-prob. In float32 what is left is the order of sums, 1e-7 of logits of up to 5 and of the
# sum over 300; bfloat16 has 8 bits, 4e-3 of the same and of every layer's output before.
BOUND = {"gpu": 2e-5, "gpu_sdpa": 2e-5, "gpu_bf16": 0.1, "gpu_sdpa_bf16": 0.1}


def measure(path: str, name: str) -> None:
    """Of a variant: log-probs, two updates (the first has a learning rate of 0), the log-probs afterwards."""
    # not MODEL_PATH: the forkserver that the ranks are forks of keeps the environment of the first test
    worker = Worker(*VARIANTS[name], f"actor_rollout_ref.model.path={path}/model")
    before, initial = worker.log_probs(), worker.weights()
    old = [row + 0.1 * torch.sin(torch.arange(len(row))) for row in before]
    metrics = [worker.update(old) for _ in range(2)]
    weights = worker.weights()
    result = {
        "model": type(worker.worker.actor.engine.module).__name__,
        "before": before,
        "after": worker.log_probs(),
        "moved": torch.cat([(weights[n] - initial[n]).flatten() for n in sorted(weights)]),
        "grad_norm": [torch.tensor(step["grad_norm"]).mean().item() for step in metrics],
        "loss": [torch.tensor(step["actor/pg_loss"]).mean().item() for step in metrics],
    }
    torch.save(result, f"{path}/{name}-{torch.distributed.get_rank()}.pt")


@pytest.mark.parametrize(("family", "ranks"), [("qwen2", 2), ("qwen3", 1)])  # lm_head of its own, and tied
def test_packed_is_unpacked(family, ranks, tmp_path):
    """Attention over a neighbour in the pack would change log-probs by some 0.1 to 1, and be seen at once."""
    model_directory(tmp_path / "model", family)
    for name in VARIANTS:  # each in processes of its own: verl's fused kernel patches the model's class
        on_ranks(ranks, measure, str(tmp_path), name)
    for rank in range(ranks):
        results = {name: torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True) for name in VARIANTS}
        cpu = results.pop("cpu")
        assert cpu["moved"].norm() > 0
        assert family in cpu["model"].lower()
        apart = {
            name: max(
                float((a - b).abs().max())
                for when in ("before", "after")
                for a, b in zip(ours[when], cpu[when], strict=True)
            )
            for name, ours in results.items()
        }
        print(f"{family}, {ranks} ranks, largest difference of a log-prob: {apart}")
        for name, ours in results.items():
            direction = torch.cosine_similarity(ours["moved"], cpu["moved"], dim=0).item()
            print(f"  {name}: updates' cosine {direction:.6f}, gradient norms {ours['grad_norm']}, {cpu['grad_norm']}")
            assert apart[name] < BOUND[name]
            exact = name in ("gpu", "gpu_sdpa")
            assert direction > (0.999 if exact else 0.9)
            assert ours["grad_norm"] == pytest.approx(cpu["grad_norm"], rel=1e-3 if exact else 0.1)
            assert ours["loss"] == pytest.approx(cpu["loss"], rel=1e-3 if exact else 0.3, abs=1e-3)
