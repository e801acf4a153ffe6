"""The training path of the gpu profiles over gloo: packed, it gives the results of the unpacked cpu profile.

Uses the settings of the gpu profiles except those that need a GPU: packing, gradient checkpointing, token-based
micro-batches, attention, cross-entropy, and dtypes.
"""

import pytest
import torch
from real_worker import batch, build_worker, model_directory, of_update, response_log_probs, weights
from tiny_fsdp import on_ranks

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

PROMPTS = [3, 7, 5, 2, 9, 4, 6, 8]  # tokens; with RESPONSES no two sequences are of one length
RESPONSES = [6, 11, 4, 9, 14, 3, 20, 8]
BUDGET = 48  # tokens of a micro-batch: more than one, of more than one sequence
DTYPES = "{param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}"
FP32 = f"+actor_rollout_ref.actor.fsdp_config.mixed_precision={DTYPES}"
NOT_COMPILED = "actor_rollout_ref.actor.use_torch_compile=false"  # ten seconds of processor time a rank, elsewhere
SDPA = "actor_rollout_ref.model.override_config.attn_implementation=sdpa"
VARIANTS = {
    "cpu": ["profile=cpu"],
    "gpu": ["profile=gpu", SDPA, FP32],  # flash attention runs on GPUs alone
    "gpu_sdpa": ["profile=gpu_sdpa", FP32],
    "gpu_sdpa_bf16": ["profile=gpu_sdpa"],
}
# Largest difference of a log-prob. In float32 what is left is the order of sums, 1e-7 of logits of up to 5 and of the
# sum over 300; bfloat16 has 8 bits, 4e-3 of the same and of every layer's output before.
BOUND = {"gpu": 2e-5, "gpu_sdpa": 2e-5, "gpu_sdpa_bf16": 0.1}


def by_tokens(section) -> None:
    section.model.external_lib = None  # it is about rollouts
    section.actor.use_dynamic_bsz = section.rollout.log_prob_use_dynamic_bsz = True
    section.actor.ppo_max_token_len_per_gpu = section.rollout.log_prob_max_token_len_per_gpu = BUDGET


def measure(path: str, name: str) -> None:
    """Save a variant's log-probs before and after two updates (the first has learning rate 0)."""
    # not MODEL_PATH: the forkserver that the ranks are forks of keeps the environment of the first test
    where = f"actor_rollout_ref.model.path={path}/model"
    worker = build_worker("optim=toy", *VARIANTS[name], where, prepare=by_tokens)
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    generator = torch.Generator().manual_seed(1)
    lengths = [prompt + response for prompt, response in zip(PROMPTS, RESPONSES, strict=True)]
    rows = [torch.randint(5, 300, (length,), generator=generator) for length in lengths][rank::ranks]
    prompts = PROMPTS[rank::ranks]

    def log_probs() -> list[torch.Tensor]:
        data = batch(rows, prompts, calculate_entropy=False, compute_loss=False)
        return [row.float() for row in response_log_probs(worker.compute_log_prob, data)]

    engine = worker.actor.engine
    before, initial = log_probs(), weights(engine)
    fields = {"old_log_probs": [row + 0.1 * torch.sin(torch.arange(len(row))) for row in before]}
    update = of_update(len(PROMPTS))
    metrics = [dict(worker.update_actor(batch(rows, prompts, fields, **update))["metrics"]) for _ in range(2)]
    moved = weights(engine)
    result = {
        "model": type(engine.module).__name__,
        "before": before,
        "after": log_probs(),
        "moved": torch.cat([(moved[n].float() - initial[n].float()).flatten() for n in sorted(moved)]),
        "grad_norm": [torch.tensor(step["grad_norm"]).mean().item() for step in metrics],
        "loss": [torch.tensor(step["actor/pg_loss"]).mean().item() for step in metrics],
    }
    torch.save(result, f"{path}/{name}-{rank}.pt")


@pytest.mark.parametrize(("family", "ranks"), [("qwen2", 2), ("qwen3", 1)])  # lm_head of its own, and tied
def test_packed_is_unpacked(family, ranks, tmp_path):
    """Attention to another sequence in the pack would change log-probs by 0.1 to 1."""
    model_directory(tmp_path / "model", family, attention_dropout=0.1)  # which an update must not have
    for name in VARIANTS:  # each in processes of its own: verl's fused kernel patches the model's class
        on_ranks(ranks, measure, str(tmp_path), name)
    for rank in range(ranks):
        results = {name: torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True) for name in VARIANTS}
        cpu = results.pop("cpu")
        assert cpu["moved"].norm() > 0
        assert family in cpu["model"].lower()
        for name, ours in results.items():
            apart = [a - b for when in ("before", "after") for a, b in zip(ours[when], cpu[when], strict=True)]
            assert max(float(row.abs().max()) for row in apart) < BOUND[name]
            exact = name in ("gpu", "gpu_sdpa")
            assert torch.cosine_similarity(ours["moved"], cpu["moved"], dim=0) > (0.999 if exact else 0.9)
            assert ours["grad_norm"] == pytest.approx(cpu["grad_norm"], rel=1e-3 if exact else 0.1)
            assert ours["loss"] == pytest.approx(cpu["loss"], rel=1e-3 if exact else 0.3, abs=1e-3)
