"""Finite inputs of any size give finite outputs; masked positions contribute exactly 0."""

import itertools
import math

import pytest
import torch

from rpg.names import KL_SCOPES
from rpg.objectives import LossSpec, token_loss, token_loss_summary
from rpg.objectives.proofs.on_device import specs

SPECS = [spec for scope in KL_SCOPES for spec in specs(scope)]


def spec_id(spec):
    return f"{spec.name}-{spec.rule}-{spec.kl_scope}"


def random_inputs(shape=(4, 50), seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    old = -torch.rand(shape, generator=generator) * 3 - 0.5
    log_prob = old + torch.randn(shape, generator=generator) * 0.4
    advantages = torch.randn(shape, generator=generator)
    ref = old + torch.randn(shape, generator=generator) * 0.4
    return {
        "log_prob": log_prob.to(dtype),
        "old_log_prob": old.to(dtype),
        "advantages": advantages.to(dtype),
        "ref_log_prob": ref.to(dtype),
    }


def loss_and_gradient(spec, inputs, mask=None):
    inputs = {key: tensor if tensor is None else tensor.clone() for key, tensor in inputs.items()}
    inputs["log_prob"].requires_grad_()
    loss, stats = token_loss(spec, mask=mask, **inputs)
    loss.sum().backward()
    return loss.detach(), inputs["log_prob"].grad, stats


@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_only_log_prob_gets_a_gradient(spec):
    """pi_old, pi_ref and A are constants, also where they are computed with a gradient, as log_prob on-policy is."""
    inputs = random_inputs()
    _, expected, _ = loss_and_gradient(spec, {**inputs, "old_log_prob": inputs["log_prob"]})
    constants = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items() if name != "log_prob"}
    x = inputs["log_prob"].clone().requires_grad_()
    loss, _ = token_loss(spec, log_prob=x, **{**constants, "old_log_prob": x})
    loss.sum().backward()
    assert torch.equal(x.grad, expected)
    assert [name for name, tensor in constants.items() if tensor.grad is not None] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_extreme_values_stay_finite(spec, dtype):
    """All combinations of log-probs 0 and -1e4 (log-ratios up to +-1e4) and advantages up to 1e6."""
    levels = (0.0, -1e-3, -15.0, -1e4)
    sizes = (0.0, 1e-3, -1.0, 6e4, -6e4) if dtype == torch.float16 else (0.0, 1e-3, -1.0, 1e6, -1e6)
    grid = torch.tensor(list(itertools.product(levels, levels, sizes, levels)))
    x, old, advantages, ref = (column.to(dtype) for column in grid.T)
    for reference in (None, ref):
        inputs = {"log_prob": x, "old_log_prob": old, "advantages": advantages, "ref_log_prob": reference}
        loss, gradient, stats = loss_and_gradient(spec, inputs)
        assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert gradient.dtype == dtype
        for name, tensor in {"loss": loss, "gradient": gradient, **stats._asdict()}.items():
            assert tensor.isfinite().all(), name


@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_half_precision_is_computed_in_float32(spec):
    inputs = random_inputs(dtype=torch.bfloat16)
    loss, gradient, _ = loss_and_gradient(spec, inputs)
    wide_loss, wide_gradient, _ = loss_and_gradient(spec, {key: value.float() for key, value in inputs.items()})
    assert torch.equal(loss, wide_loss)
    assert torch.equal(gradient, wide_gradient.to(torch.bfloat16))


@pytest.mark.parametrize("garbage", [float("nan"), float("inf")])
@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_masked_positions_contribute_exactly_nothing(spec, garbage):
    inputs = random_inputs()
    if spec.has_later:
        inputs["kl_baseline"] = torch.randn(4, 50, generator=torch.Generator().manual_seed(2))
    mask = torch.rand(4, 50, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[2] = False  # a padding row
    loss, gradient, stats = loss_and_gradient(spec, inputs, mask)
    dirty = {key: torch.where(mask, tensor, garbage) for key, tensor in inputs.items()}
    dirty_loss, dirty_gradient, dirty_stats = loss_and_gradient(spec, dirty, mask)
    assert torch.equal(loss, dirty_loss)
    assert torch.equal(gradient, dirty_gradient)
    assert (dirty_loss[~mask] == 0).all()
    assert (dirty_gradient[~mask] == 0).all()
    for name, one, other in zip(stats._fields, stats, dirty_stats, strict=True):
        assert torch.equal(one, other), name
    if spec.kl_scope == "token":  # test_response_scope.py masks tokens of a response
        unmasked_loss, unmasked_gradient, _ = loss_and_gradient(spec, inputs)
        assert torch.equal(loss[mask], unmasked_loss[mask])
        assert torch.equal(gradient[mask], unmasked_gradient[mask])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_what_is_not_finite_is_nan_in_loss_and_gradient(spec, value):
    """Also where a clamped ratio would hide it; other responses keep theirs."""
    baseline = {"kl_baseline": torch.zeros(4, 50)} if spec.has_later else {}
    for name in (*random_inputs(), *baseline):
        inputs = random_inputs() | {key: tensor.clone() for key, tensor in baseline.items()}
        inputs[name][1, 7] = value
        loss, gradient, stats = loss_and_gradient(spec, inputs)
        assert loss[1, 7].isnan(), name
        assert gradient[1, 7].isnan(), name
        assert (~stats.counted).nonzero().tolist() == [[1, 7]], name
        for tensor in (loss, gradient):
            assert tensor[[0, 2, 3]].isfinite().all(), name


@pytest.mark.parametrize("scope", KL_SCOPES)
@pytest.mark.parametrize("name", ["rpg_rf_urkl_clip_ppo", "rpg_ufkl"])
@pytest.mark.parametrize("shape", [(0, 7), (3, 0)])
def test_no_token_at_all(shape, name, scope):
    spec = LossSpec.parse(name, kl_scope=scope)
    _, summary = token_loss_summary(spec, mask=torch.ones(shape), **random_inputs(shape))
    assert (summary.tokens, summary.kl_sum, summary.ratio_max, summary.ratio_min) == (0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("name", ["old_log_prob", "advantages", "ref_log_prob", "mask", "kl_baseline"])
def test_a_shape_that_would_broadcast_is_refused_by_name(name):
    inputs = {**random_inputs(), "mask": torch.ones(4, 50), "kl_baseline": torch.zeros(4, 50)}
    inputs[name] = inputs[name][:, :1]
    with pytest.raises(ValueError, match=f"{name} has shape \\(4, 1\\)"):
        token_loss(LossSpec.parse("rpg_urkl"), **inputs)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["log_prob", "old_log_prob", "advantages", "ref_log_prob"])
def test_a_token_that_is_not_finite_is_counted_and_in_no_sum(field, value):
    inputs, mask = random_inputs(), torch.ones(4, 50)
    inputs[field][1, 7] = value
    _, summary = token_loss_summary(LossSpec.parse("rpg_urkl"), mask=mask, **inputs)
    mask[1, 7] = 0
    _, without = token_loss_summary(LossSpec.parse("rpg_urkl"), mask=mask, **inputs)
    assert summary == without._replace(not_finite=1)


@pytest.mark.parametrize("shift", [0.5, -0.5])
def test_the_stand_in_ratio_of_masked_tokens_is_no_extreme(shift):
    """All valid ratios are on one side of 1, at which masked tokens are evaluated."""
    inputs = random_inputs(dtype=torch.float64)
    inputs["log_prob"] = inputs["old_log_prob"] + shift
    mask = torch.rand(4, 50, generator=torch.Generator().manual_seed(5)) > 0.5
    _, summary = token_loss_summary(LossSpec.parse("rpg_urkl"), mask=mask, **inputs)
    expected = torch.tensor(shift, dtype=torch.float64).exp().item()
    assert summary.ratio_max == pytest.approx(expected, rel=1e-14)
    assert summary.ratio_min == pytest.approx(expected, rel=1e-14)
