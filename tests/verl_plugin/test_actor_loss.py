"""The actor loss around verl's ppo_loss: NaN, the reference, and metrics over micro-batches and ranks."""

import math
import statistics
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from test_policy_loss import actor_config
from tiny_fsdp import process_group
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss

from rpg.names import RHO_BOUND
from rpg.objectives import LossSpec, TokenStats, token_loss
from rpg.verl_plugin.actor_loss import INPUTS, ActorLoss
from rpg.verl_plugin.config import RPGPolicyLossConfig

PROMPT = 2
LENGTHS = (5, 1, 3, 2, 4, 1)
NUMBERS = {"kl_coef": 0.3, "clip_low": 0.2, "clip_high": 0.28, "clip_c": 2.0}  # clips: those of actor_config


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


def actor_loss(loss_mode: str, has_reference: bool = False, kl_scope: str = "token") -> ActorLoss:
    policy_loss = RPGPolicyLossConfig(loss_mode=loss_mode, kl_coef=0.3, kl_scope=kl_scope)
    return ActorLoss(partial(ppo_loss, config=actor_config(policy_loss=policy_loss)), has_reference)


def expected(some: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Return the metrics by definition, token by token in Python floats."""
    weights, log_ratios, mass = [], [], []
    for row in some:
        for t, counts in enumerate(row["response_mask"].tolist()):
            if counts:
                value = {name: float(tensor[t]) for name, tensor in row.items() if name != "prompts"}
                w = math.exp(value["log_prob"] - value["old_log_probs"])
                weights.append(w * value.get("rollout_is_weights", 1.0))
                log_ratios.append(value["rollout_log_probs"] - value["log_prob"])
                mass.append(math.exp(-log_ratios[-1]))
    ess = sum(weights) ** 2 / (len(weights) * sum(w * w for w in weights))
    return {
        "training/off_policy/ess": ess,
        "training/off_policy/kl": sum(log_ratios) / len(log_ratios),
        "training/off_policy/mass": sum(mass) / len(mass),
        "training/off_policy/mass_error": statistics.pstdev(mass) / math.sqrt(len(mass)),
    }


def of_the_loss(name: str, some: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Return actor/rpg_* by definition: token_loss's statistics of all unmasked tokens of a batch at once."""
    keys = {"log_prob": "log_prob", "old_log_prob": "old_log_probs", "ref_log_prob": "ref_log_prob"}
    inputs = {key: torch.cat([row[field] for row in some]) for key, field in keys.items()}
    advantages = torch.cat([row["advantages"] for row in some])
    counts = torch.cat([row["response_mask"] for row in some]) != 0
    _, stats = token_loss(LossSpec.parse(name, **NUMBERS), advantages=advantages, **inputs)
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
        found, _ = loss.take()
    result.backward()
    assert weights.grad.isnan().any()
    if field not in ("advantages", "ref_log_prob"):
        some[0]["response_mask"][2] = 0
        assert found["training/off_policy/ess"] == pytest.approx(expected(some)["training/off_policy/ess"], rel=1e-5)


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
    """The loss is token_loss with it and its baseline, averaged over the tokens; the KL is contained once."""
    some, loss = rows(weights=False), actor_loss(name, has_reference=True, kl_scope="response")
    for row in some if name == "rpg_urkl" else ():
        row["kl_baseline"] = row["ref_log_prob"].cos()
    output, data = batch(some)
    with process_group():
        got, metrics = loss(output, data)
        _, reference_kl = loss.take()
    outside, _ = loss.ppo_loss(model_output=output, data=data)  # of ActorLoss the reference is pi_old

    padded = {key: torch.nn.utils.rnn.pad_sequence([row[key] for row in some], batch_first=True) for key in some[0]}
    mask, ref = padded["response_mask"], {"ref_log_prob": padded["ref_log_prob"]}
    if "kl_baseline" in padded:
        ref["kl_baseline"] = padded["kl_baseline"]
    inputs = {"log_prob": "log_prob", "old_log_prob": "old_log_probs", "advantages": "advantages"}
    spec = LossSpec.parse(name, kl_scope="response", rho_bound=RHO_BOUND, **NUMBERS)
    for given, reference in ((got, ref), (outside, {})):
        losses, _ = token_loss(spec, **{key: padded[field] for key, field in inputs.items()}, mask=mask, **reference)
        torch.testing.assert_close(given, losses.sum() / mask.sum(), rtol=1e-5, atol=1e-6)  # float32 sums of 15 terms
    assert abs(got - outside) > 1e-3
    assert "kl_loss" not in metrics  # verl's own
    log_rho = (padded["ref_log_prob"] - padded["old_log_probs"])[mask != 0].double()
    assert reference_kl == pytest.approx((log_rho.exp() - 1 - log_rho).mean().item())


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
    assert 0.5 < found["training/off_policy/ess"] < 0.95  # the weights do differ
    assert not ours or found["actor/rpg_clipfrac_high"] > 0 < found["actor/rpg_clipfrac_low"]
