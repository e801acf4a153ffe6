"""One batch on the real worker: the same metrics and update in any number of micro-batches, and on two ranks.

With kl_scope=response, whose sums run over the tokens of a response.
"""

import json
from pathlib import Path

import pytest
import torch
from real_worker import batch, build_worker, of_update, response_log_probs, toy_tokenizer
from tiny_fsdp import on_ranks

from rpg.toy import model as toy_model

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

PROMPT = 4
RESPONSES = [1, 40, 40, 9, 1, 17, 5, 30, 2, 12, 25, 1, 8, 33, 3, 6, 11, 2, 40, 4]  # tokens
MINI_BATCH = 10  # responses, so that the batch is two optimizer steps
FAR = 4.0  # log-ratio of the responses of one token, which have no weight among hundreds of tokens
SETTINGS = ["profile=cpu", "optim=toy", "reference=fixed", "rpg.kl_scope=response", "rpg.kl_coef=0.5"]
SETTINGS += ["actor_rollout_ref.actor.optim.lr_warmup_steps=0"]


def measure_all(directory: str, splits: tuple[int, ...]) -> None:
    for micro_batches in splits:
        measure(directory, micro_batches)


def measure(directory: str, micro_batches: int) -> None:
    """Save the metrics of a batch. micro_batches: of a mini-batch, on all ranks."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()

    def prepare(section) -> None:
        section.actor.use_dynamic_bsz, section.actor.ppo_micro_batch_size_per_gpu = False, MINI_BATCH // micro_batches
        for part in (section.rollout, section.ref):
            part.log_prob_use_dynamic_bsz, part.log_prob_micro_batch_size_per_gpu = False, len(RESPONSES) // ranks

    path = f"actor_rollout_ref.model.path={directory}/model"
    worker = build_worker(*SETTINGS, path, role="actor_ref", prepare=prepare)
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(5, 300, (PROMPT + length,), generator=generator) for length in RESPONSES][rank::ranks]
    prompts = [PROMPT] * len(rows)
    asked = batch(rows, prompts, calculate_entropy=False, compute_loss=False)
    log_probs = response_log_probs(worker.compute_log_prob, asked)
    away = [FAR if len(row) == 1 else 0.5 * torch.sin(torch.arange(len(row))) for row in log_probs]
    fields = {
        "old_log_probs": [row - distance for row, distance in zip(log_probs, away, strict=True)],
        "ref_log_prob": [row + 0.3 * torch.cos(torch.arange(len(row))) for row in log_probs],
        "rollout_log_probs": [row + 0.1 for row in log_probs],
        "kl_baseline": [torch.linspace(1, 0, len(row)) for row in log_probs],
    }
    metrics = worker.update_actor(batch(rows, prompts, fields, **of_update(MINI_BATCH)))["metrics"]
    ours = {key: float(value) for key, value in metrics.items() if key.startswith(("actor/rpg_", "off_policy/"))}
    verls = torch.tensor(metrics["actor/ppo_kl"]).mean().item()
    weights = [full(parameter).norm().item() for parameter in worker.actor.engine.module.parameters()]
    result = {"ours": ours, "verls": verls, "weights": weights}
    Path(f"{directory}/{micro_batches}-{rank}-of-{ranks}").write_text(json.dumps(result))


def full(parameter: torch.Tensor) -> torch.Tensor:
    """Return a parameter of FSDP2 gathered from all ranks."""
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


def test_metrics_are_those_of_the_tokens(tmp_path):
    """One response of one token beside others of 40: verl's mean over micro-batches depends on its company."""
    tokenizer = toy_tokenizer()
    toy_model.build_model(tokenizer, toy_model.ToyModelSettings()).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    on_ranks(1, measure_all, str(tmp_path), (1, 2, 5))
    on_ranks(2, measure_all, str(tmp_path), (2, 10))
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*-of-*")}
    assert len(found) == 7
    whole = found["1-0-of-1"]
    assert whole["ours"].keys() == {
        *(f"actor/rpg_{name}" for name in ("kl", "ratio_mean", "ratio_max", "ratio_min", "rho_held")),
        *(f"actor/rpg_clipfrac_{name}" for name in ("high", "low", "c")),
        *("off_policy/ess", "off_policy/kl"),
    }
    for split, numbers in found.items():
        # float32 log-probs from matrices of other shapes: 1e-6 of ratios up to e^4
        assert numbers["ours"] == pytest.approx(whole["ours"], rel=1e-4), split
        # two optimizer steps of AdamW at 3e-4, whose sign can flip where a gradient is nearly 0
        assert numbers["weights"] == pytest.approx(whole["weights"], rel=1e-4), split
    # the case does tell them apart: verl's mean over micro-batches
    assert found["5-0-of-1"]["verls"] != pytest.approx(whole["verls"], rel=0.1)
    assert whole["ours"]["actor/rpg_ratio_max"] > 40
