"""Effective sample size and KL of the sampler: definition, micro-batches, ranks; with verl's ppo_loss inside."""

import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from tiny_fsdp import on_ranks, process_group
from verl.utils import tensordict_utils as tu

from rpg.verl_plugin import policy_loss
from rpg.verl_plugin.config import RPGPolicyLossConfig
from rpg.verl_plugin.nonfinite import FiniteLoss
from rpg.verl_plugin.off_policy import MeasuredLoss

PROMPT = 2
LENGTHS = (5, 1, 3, 2, 4, 1)


def rows(weights: bool = True) -> list[dict[str, torch.Tensor]]:
    """Responses of LENGTHS; the last token of the third does not count."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for length in LENGTHS:
        old = -3 * torch.rand(length, generator=generator)
        row = {
            "prompts": torch.ones(PROMPT, dtype=torch.int64),
            "responses": torch.ones(length, dtype=torch.int64),
            "response_mask": torch.ones(length, dtype=torch.int64),
            "old_log_probs": old,
            "rollout_log_probs": old + 0.3 * torch.randn(length, generator=generator),
            "advantages": torch.randn(length, generator=generator),
            "log_prob": old + 0.5 * torch.randn(length, generator=generator),
        }
        if weights:
            row["rollout_is_weights"] = torch.rand(length, generator=generator) + 0.5
        made.append(row)
    made[2]["response_mask"][-1] = 0
    return made


def batch(some: list[dict[str, torch.Tensor]], dp_size: int = 1) -> tuple[dict[str, torch.Tensor], TensorDict]:
    """What verl's engine hands to a loss: log-probs of whole sequences, moved by one token, and the rest."""
    log_probs = [torch.cat([torch.full((PROMPT - 1,), 9.0), row["log_prob"], torch.full((1,), 9.0)]) for row in some]
    names = [name for name in some[0] if name != "log_prob"]
    fields = {n: torch.nested.as_nested_tensor([row[n] for row in some], layout=torch.jagged) for n in names}
    data = TensorDict(fields, batch_size=len(some))
    tu.assign_non_tensor(data, dp_size=dp_size, batch_num_tokens=15, global_batch_size=6)
    return {"log_probs": torch.nested.as_nested_tensor(log_probs, layout=torch.jagged)}, data


def measured(loss_mode: str) -> MeasuredLoss:
    from verl.workers.config import FSDPActorConfig
    from verl.workers.utils.losses import ppo_loss

    policy_loss.register()
    config = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        policy_loss=RPGPolicyLossConfig(loss_mode=loss_mode),
    )
    return MeasuredLoss(FiniteLoss(partial(ppo_loss, config=config)))


def expected(some: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Both definitions, token by token in Python's floats."""
    weights, log_ratios = [], []
    for row in some:
        for t, counts in enumerate(row["response_mask"].tolist()):
            if counts:
                value = {name: float(tensor[t]) for name, tensor in row.items() if name != "prompts"}
                w = math.exp(value["log_prob"] - value["old_log_probs"])
                weights.append(w * value.get("rollout_is_weights", 1.0))
                log_ratios.append(value["rollout_log_probs"] - value["log_prob"])
    ess = sum(weights) ** 2 / (len(weights) * sum(w * w for w in weights))
    return {"off_policy/ess": ess, "off_policy/kl": sum(log_ratios) / len(log_ratios)}


@pytest.mark.parametrize("weights", [False, True], ids=["plain", "rollout_is"])
@pytest.mark.parametrize("loss_mode", ["rpg_rf_urkl_clip_ppo", "vanilla"])
def test_definition(loss_mode, weights):
    """In uneven micro-batches: 1, 3 and 2 responses. The loss itself is what it is without us."""
    some, loss = rows(weights), measured(loss_mode)
    with process_group():
        for part in (slice(0, 1), slice(1, 4), slice(4, 6)):
            value, metrics = loss(*batch(some[part]))
            same, said = loss.actor_loss(*batch(some[part]))
            assert value.item() == same.item()
            assert metrics.keys() == said.keys()
        found = loss.take()
        loss(*batch(some[:1]))
        assert loss.take() == pytest.approx(expected(some[:1]), rel=1e-5)  # the next batch begins anew
    assert found == pytest.approx(expected(some), rel=1e-5)
    assert 0.5 < found["off_policy/ess"] < 0.95  # the weights do differ


def test_weights_of_one_are_an_effective_sample_size_of_one():
    some, loss = rows(weights=False), measured("rpg_urkl")
    for row in some:
        row["log_prob"] = row["old_log_probs"].clone()
        del row["rollout_log_probs"]
    with process_group():
        loss(*batch(some))
        assert loss.take() == {"off_policy/ess": 1.0}  # and no KL where the sampler's log-probs are not known


@pytest.mark.parametrize("loss_mode", ["rpg_urkl", "vanilla"])
@pytest.mark.parametrize("field", ["old_log_probs", "rollout_is_weights", "log_prob", "rollout_log_probs"])
def test_what_is_not_finite_is_left_out(loss_mode, field):
    """Whichever of the two ways FiniteLoss takes, a token is counted once, and its neighbours are."""
    some, loss = rows(), measured(loss_mode)
    some[0][field][2] = math.nan
    with process_group():
        loss(*batch(some))
        found = loss.take()
    assert all(map(math.isfinite, found.values()))
    kept = [{name: tensor.clone() for name, tensor in row.items()} for row in some]
    kept[0]["response_mask"][2] = 0
    key = "off_policy/kl" if field == "rollout_log_probs" else "off_policy/ess"
    assert found[key] == pytest.approx(expected(kept)[key], rel=1e-5)


def test_a_batch_without_tokens():
    some, loss = rows(), measured("rpg_urkl")
    for row in some:
        row["response_mask"].zero_()
    with process_group():
        loss(*batch(some))
        assert loss.take() == {}


def measure_a_share(path: str) -> None:
    """Each rank has every second response, in two micro-batches."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    loss, mine = measured("rpg_urkl"), rows()[rank::ranks]
    for part in (slice(0, 1), slice(1, None)):
        loss(*batch(mine[part], dp_size=ranks))
    Path(f"{path}-{rank}").write_text(json.dumps(loss.take()))


@pytest.mark.slow
def test_two_ranks_are_one(tmp_path):
    on_ranks(2, measure_a_share, str(tmp_path / "found"))
    for rank in (0, 1):
        assert json.loads((tmp_path / f"found-{rank}").read_text()) == pytest.approx(expected(rows()), rel=1e-5)
