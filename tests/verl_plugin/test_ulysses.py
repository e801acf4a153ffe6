"""transformers' flash path with verl's packing and Ulysses on two gloo ranks: the results of sdpa on one rank.

flash-attn is replaced by exact attention in torch (torch_flash_attn.py); all else is what a GPU runs.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_flash_attn
from real_worker import batch, build_worker, model_directory, of_update, response_log_probs, weights
from test_packing import FP32, NOT_COMPILED, PROMPTS, RESPONSES, by_tokens
from tiny_fsdp import on_ranks

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

RESPONSE_KL = ["method=rpg_rf_clip_ppo", "rpg.divergence=urkl", "rpg.kl_scope=response", "rpg.kl_coef=0.1"]
LOSSES = {"token": [], "response": [*RESPONSE_KL, "reference=fixed"]}
SDPA, FLASH = ["profile=gpu_sdpa", FP32, NOT_COMPILED], ["profile=gpu", FP32, NOT_COMPILED]
ULYSSES = "actor_rollout_ref.{}.ulysses_sequence_parallel_size=2"
# Both of verl's keys; the second is not marked as deprecated.
SPLIT = {
    "flash": FLASH,
    "ulysses": [*FLASH, ULYSSES.format("actor")],
    "ulysses of fsdp_config": [*FLASH, ULYSSES.format("actor.fsdp_config")],
}


COMPARED = ("actor/pg_loss", "actor/rpg_", "grad_norm", "training/off_policy/", "reference/", "skipped_steps", "lr")


def measure(path: str, variants: dict[str, list[str]], flash: bool) -> None:
    """Save rank 0's results for both losses: log-probs before, metrics of two updates, and their sum."""
    packed = torch_flash_attn.install() if flash else []
    for name, loss in itertools.product(variants, LOSSES):
        packed.clear()
        settings = [*variants[name], *LOSSES[loss]]
        result = update_twice(f"{path}/model", settings, has_reference=loss == "response")
        if torch.distributed.get_rank() == 0:
            torch.save(result | {"packed": packed}, f"{path}/{name}-{loss}.pt")


def update_twice(model: str, settings: list[str], has_reference: bool) -> dict[str, Any]:
    where, warm = f"actor_rollout_ref.model.path={model}", "actor_rollout_ref.actor.optim.lr_warmup_steps=0"
    role = "actor_ref" if has_reference else "actor"
    worker = build_worker("optim=toy", *settings, where, warm, prepare=by_tokens, role=role)
    engine = worker.actor.engine
    data_rank, data_ranks = engine.get_data_parallel_rank(), engine.get_data_parallel_size()
    generator = torch.Generator().manual_seed(1)
    lengths = [prompt + response for prompt, response in zip(PROMPTS, RESPONSES, strict=True)]
    rows = [torch.randint(5, 300, (length,), generator=generator) for length in lengths][data_rank::data_ranks]
    prompts, responses = PROMPTS[data_rank::data_ranks], RESPONSES[data_rank::data_ranks]

    def of_ranks(value: Any) -> list[Any]:
        """Return the values of all ranks that have one: with Ulysses only the first of a group has outputs."""
        values = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(values, value)
        return [value for value in values if value is not None]

    def log_probs(call) -> list[list[torch.Tensor]]:
        data = batch(rows, prompts, calculate_entropy=False, compute_loss=False)
        output = call(data)
        mine = None if output is None else response_log_probs(lambda _: output, data)
        return of_ranks(None if mine is None else [row.float() for row in mine])

    before, initial = log_probs(worker.compute_log_prob), weights(engine)
    fields = {"old_log_probs": [-5 + 0.1 * torch.sin(torch.arange(n)) for n in responses]}
    if has_reference:
        fields["ref_log_prob"] = log_probs(worker.compute_ref_log_prob)[data_rank]
        fields["kl_baseline"] = [0.2 * torch.sin(torch.arange(n) + 1.0) for n in responses]
    metrics = []
    for _ in range(2):
        output = worker.update_actor(batch(rows, prompts, fields, **of_update(len(PROMPTS))))
        metrics += of_ranks(None if output is None else dict(output["metrics"]))[:1]
    moved = weights(engine)
    return {
        "ranks": (data_ranks, engine.ulysses_sequence_parallel_size),
        "before": [before[n % data_ranks][n // data_ranks] for n in range(len(PROMPTS))],
        "metrics": [{key: float(torch.tensor(value).mean()) for key, value in step.items()} for step in metrics],
        "moved": torch.cat([(moved[key] - initial[key]).flatten() for key in sorted(moved)]),
    }


def test_flash_and_ulysses_are_sdpa_on_one_rank(tmp_path: Path):
    model_directory(tmp_path / "model", "qwen2")
    on_ranks(1, measure, str(tmp_path), {"sdpa": SDPA}, False, engines=True)
    on_ranks(2, measure, str(tmp_path), SPLIT, True, engines=True)
    for loss in LOSSES:
        one = torch.load(tmp_path / f"sdpa-{loss}.pt", weights_only=False)
        assert one["moved"].norm() > 0.1
        for name in SPLIT:
            two = torch.load(tmp_path / f"{name}-{loss}.pt", weights_only=False)
            assert two["ranks"] == ((2, 1) if name == "flash" else (1, 2))
            assert max(len(borders) for borders in two["packed"]) > 2  # more than one sequence in a pack
            # float32: 1e-7 of logits of up to 5, and of sums over 300
            apart = [(a - b).abs().max() for a, b in zip(one["before"], two["before"], strict=True)]
            assert max(apart) < 1e-5
            assert (one["moved"] - two["moved"]).norm() < 1e-3 * one["moved"].norm()
            for ours, theirs in zip(two["metrics"], one["metrics"], strict=True):
                compared = [key for key in theirs if key.startswith(COMPARED)]
                assert {key: ours[key] for key in compared} == pytest.approx(
                    {key: theirs[key] for key in compared}, rel=1e-4, abs=1e-6
                )
