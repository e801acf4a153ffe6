"""The actor loss around verl's ppo_loss: NaN, the reference, and metrics over micro-batches and ranks."""

import math
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tiny_fsdp import process_group
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.losses import ppo_loss

from rpg.objectives import LossSpec, TokenStats, token_loss
from rpg.verl_plugin import policy_loss, register
from rpg.verl_plugin.actor_loss import INPUTS, ActorLoss, token_kl
from rpg.verl_plugin.config import RPGPolicyLossConfig

PROMPT = 2
LENGTHS = (5, 1, 3, 2, 4, 1)


def rows(weights: bool = True) -> list[dict[str, torch.Tensor]]:
    """Return responses of LENGTHS; the last token of the third is masked."""
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
            "ref_log_prob": old + 0.3 * torch.randn(length, generator=generator),
            "advantages": torch.randn(length, generator=generator),
            "log_prob": old + 0.5 * torch.randn(length, generator=generator),
        }
        if weights:
            row["rollout_is_weights"] = torch.rand(length, generator=generator) + 0.5
        made.append(row)
    made[2]["response_mask"][-1] = 0
    return made


def batch(some: list[dict[str, torch.Tensor]], dp_size: int = 1) -> tuple[dict[str, torch.Tensor], TensorDict]:
    """Return the inputs of a loss in verl's engine: shifted log-probs of whole sequences, and the rest."""
    log_probs = [torch.cat([torch.full((PROMPT - 1,), 9.0), row["log_prob"], torch.full((1,), 9.0)]) for row in some]
    names = [name for name in some[0] if name != "log_prob"]
    fields = {n: torch.nested.as_nested_tensor([row[n] for row in some], layout=torch.jagged) for n in names}
    data = TensorDict(fields, batch_size=len(some))
    tu.assign_non_tensor(data, dp_size=dp_size, batch_num_tokens=15, global_batch_size=6)
    return {"log_probs": torch.nested.as_nested_tensor(log_probs, layout=torch.jagged)}, data


def actor_loss(loss_mode: str, has_reference: bool = False) -> ActorLoss:
    register()
    config = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        use_torch_compile=False,
        policy_loss=RPGPolicyLossConfig(loss_mode=loss_mode, kl_coef=0.3),
    )
    return ActorLoss(partial(ppo_loss, config=config), has_reference)


def expected(some: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Return the metrics by definition, token by token in Python floats."""
    weights, log_ratios = [], []
    for row in some:
        for t, counts in enumerate(row["response_mask"].tolist()):
            if counts:
                value = {name: float(tensor[t]) for name, tensor in row.items() if name != "prompts"}
                w = math.exp(value["log_prob"] - value["old_log_probs"])
                weights.append(w * value.get("rollout_is_weights", 1.0))
                log_ratios.append(value["rollout_log_probs"] - value["log_prob"])
    ess = sum(weights) ** 2 / (len(weights) * sum(w * w for w in weights))
    return {
        "off_policy/ess": ess,
        "off_policy/kl": sum(log_ratios) / len(log_ratios),
        "off_policy/mass": sum(math.exp(-log_ratio) for log_ratio in log_ratios) / len(log_ratios),
    }


def off_policy(metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics that every loss has."""
    return {key: value for key, value in metrics.items() if key.startswith("off_policy/")}


def of_the_loss(name: str, some: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Return actor/rpg_* by definition: token_loss's statistics of all unmasked tokens of a batch at once."""
    keys = {"log_prob": "log_prob", "old_log_prob": "old_log_probs", "ref_log_prob": "ref_log_prob"}
    inputs = {key: torch.cat([row[field] for row in some]) for key, field in keys.items()}
    advantages = torch.cat([row["advantages"] for row in some])
    counts = torch.cat([row["response_mask"] for row in some]) != 0
    spec = LossSpec.parse(name, kl_coef=0.3, clip_low=0.2, clip_high=0.2, clip_c=3.0)
    _, stats = token_loss(spec, advantages=advantages, **inputs)
    kept = TokenStats(*(values[counts].double() for values in stats))
    return {
        "actor/rpg_kl": kept.kl.mean().item(),
        "actor/rpg_kl_k1": kept.k1.mean().item(),
        "actor/rpg_clipfrac_high": kept.clipped_high.mean().item(),
        "actor/rpg_clipfrac_low": kept.clipped_low.mean().item(),
        "actor/rpg_clipfrac_c": kept.clipped_c.mean().item(),
        "actor/rpg_ratio_mean": kept.ratio.mean().item(),
        "actor/rpg_rho_held": 0.0,
        "actor/rpg_ratio_max": kept.ratio.max().item(),
        "actor/rpg_ratio_min": kept.ratio.min().item(),
    }


@pytest.mark.parametrize("loss_mode", ["rpg_urkl", "vanilla"])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
@pytest.mark.parametrize("field", [*INPUTS, "log_prob"])
def test_what_is_not_finite_makes_the_gradient_nan(loss_mode, value, field):
    """verl's engine then skips the step; our metrics exclude that token."""
    some, loss = rows(), actor_loss(loss_mode, has_reference=loss_mode != "vanilla")
    some[0][field][2] = value
    output, data = batch(some)
    weights = output["log_probs"].values().requires_grad_()
    output["log_probs"] = torch.nested.nested_tensor_from_jagged(weights, output["log_probs"].offsets())
    with process_group():
        result, _ = loss(output, data)
        found = off_policy(loss.take()[0])
    result.backward()
    assert weights.grad.isnan().any()
    if field not in ("advantages", "ref_log_prob"):
        some[0]["response_mask"][2] = 0
        of_the_sampler = {key: found[key] for key in ("off_policy/kl", "off_policy/mass")}
        assert found == pytest.approx(expected(some) | of_the_sampler, rel=1e-5)


@pytest.mark.parametrize("field", [*INPUTS, "rollout_log_probs", "log_prob"])
def test_what_does_not_count_may_be_anything(field):
    some, clean, loss = rows(), rows(), actor_loss("rpg_urkl", has_reference=True)
    some[2][field][-1] = math.nan  # where response_mask is 0
    with process_group():
        (got, _), found = loss(*batch(some)), loss.take()
        (want, _), without = loss(*batch(clean)), loss.take()
    assert got.item() == want.item()
    assert found == without


@pytest.mark.parametrize("name", ["rpg_urkl", "rpg_rf_fkl_clip_ppo"])
def test_the_policy_loss_gets_the_reference(name):
    """The loss is policy_loss with that ref_log_prob, and contains the KL once."""
    some, loss = rows(weights=False), actor_loss(name, has_reference=True)
    output, data = batch(some)
    with process_group():
        got, metrics = loss(output, data)
        _, reference_kl = loss.take()
    config = loss.ppo_loss.keywords["config"]
    padded = {key: torch.nn.utils.rnn.pad_sequence([row[key] for row in some], batch_first=True) for key in some[0]}
    arguments = {
        "old_log_prob": padded["old_log_probs"],
        "log_prob": padded["log_prob"],
        "advantages": padded["advantages"],
        "response_mask": padded["response_mask"].bool(),
        "config": config,
    }
    without, _ = policy_loss.policy_loss(name, **arguments)
    policy_loss.MICRO_BATCH.set(policy_loss.MicroBatch(ref_log_prob=padded["ref_log_prob"]))
    want, _ = policy_loss.policy_loss(name, **arguments)
    policy_loss.MICRO_BATCH.set(None)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)  # one sum of fifteen float32 terms of order 1
    assert abs(want - without) > 1e-3
    assert "kl_loss" not in metrics  # verl's own
    kl = token_kl(padded["old_log_probs"], padded["ref_log_prob"])[padded["response_mask"].bool()].mean().item()
    assert reference_kl == pytest.approx(kl)
    again, _ = loss.ppo_loss(model_output=output, data=data)  # outside of ActorLoss the reference is pi_old
    torch.testing.assert_close(again, without, rtol=1e-5, atol=1e-6)


SPLITS = {"one": [6], "two": [1, 5], "five": [1, 1, 1, 2, 1], "six, one without tokens": [1, 1, 1, 0, 3]}


@pytest.mark.parametrize("parts", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize(
    ("name", "weights"), [("rpg_urkl", True), ("rpg_rf_fkl_clip_ppo", False), ("vanilla", True), ("vanilla", False)]
)
def test_metrics_by_definition_do_not_depend_on_micro_batches(name, weights, parts):
    """One token beside many: verl's mean over micro-batches would weight it like all the others together."""
    some, ours = rows(weights), name != "vanilla"
    loss = actor_loss(name, has_reference=ours)
    padding = {key: tensor.clone() for key, tensor in some[0].items()}
    padding["response_mask"][:] = 0
    with process_group():
        loss(*batch(some[:1]))
        loss.take()  # the next batch begins anew
        for part in parts:
            _, metrics = loss(*batch(some[:part] or [padding]))
            assert not [key for key in metrics if key.startswith("actor/rpg_")]  # which verl would average
            some = some[part:]
        found, _ = loss.take()
    assert some == []
    some = rows(weights)
    assert found == pytest.approx(expected(some) | (of_the_loss(name, some) if ours else {}), rel=1e-5)
    assert 0.5 < found["off_policy/ess"] < 0.95  # the weights do differ
    assert not ours or found["actor/rpg_clipfrac_high"] > 0 < found["actor/rpg_clipfrac_low"]
