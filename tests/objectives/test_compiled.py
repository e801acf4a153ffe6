"""The losses under torch.compile (actor.use_torch_compile): equal results, any shape, and without a compiler.

proofs/test_on_device.py compiles a REINFORCE loss with kl_scope=token.
"""

import pytest
import torch

from rpg.objectives import LossSpec, token_loss_summary
from rpg.objectives.tokens import compiled

CPU = torch.device("cpu")


def batch(rows, tokens):
    generator = torch.Generator().manual_seed(rows)

    def normal(scale):
        return torch.randn(rows, tokens, generator=generator) * scale

    old = -normal(1.0).abs() - 0.5
    inputs = {"old_log_prob": old, "advantages": normal(1.0), "ref_log_prob": old + normal(0.3)}
    mask = torch.rand(rows, tokens, generator=generator) > 0.3
    return {key: tensor.masked_fill(~mask, float("nan")) for key, tensor in inputs.items()}, old + normal(0.5), mask


@pytest.fixture(autouse=True)
def _fresh():
    compiled.cache_clear()
    torch._dynamo.reset()
    yield
    compiled.cache_clear()
    torch._dynamo.reset()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "scope"), [("rpg_rf_urkl_clip_ppo", "response"), ("rpg_rkl", "token"), ("rpg_ufkl", "response")]
)
def test_same_numbers_for_any_shape(name, scope, recwarn):
    spec, function = LossSpec.parse(name, kl_coef=0.1, kl_scope=scope), compiled(CPU)
    assert function is not token_loss_summary
    assert not [warning for warning in recwarn if "use_torch_compile" in str(warning.message)]
    for shape in ((4, 33), (7, 5)):
        inputs, log_prob, mask = batch(*shape)
        if spec.has_later:
            inputs["kl_baseline"] = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        results = []
        for compute in (token_loss_summary, function):
            x = log_prob.clone().requires_grad_()
            loss, summary = compute(spec, log_prob=x, mask=mask, **inputs)
            loss.sum().backward()
            results.append((loss, x.grad, *summary))
        for plain, fast in zip(*results, strict=True):
            # float32: another order of the same few operations
            torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)


def test_without_a_compiler_the_losses_run_plain_with_one_warning(monkeypatch):
    def broken(graph, inputs):
        raise RuntimeError("no working C++ compiler")

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: compile_(function, backend=broken, **options))
    with pytest.warns(UserWarning, match="use_torch_compile.*no working C") as warnings:
        functions = [compiled(CPU), compiled(CPU)]
    assert functions == [token_loss_summary, token_loss_summary]
    assert sum("use_torch_compile" in str(warning.message) for warning in warnings) == 1  # others are torch's own
