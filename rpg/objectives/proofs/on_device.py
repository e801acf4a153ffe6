"""The losses on a device, plain and compiled, against float64 on the CPU: `rpg verify --device cuda`."""

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from rpg.objectives import LOSS_NAMES, LossSpec, token_loss_summary, tokens

# Largest difference, relative to 1 + |value|: rounding of exp, of sums, and of a gradient in the inputs' type. With
# kl_scope=response UFKL multiplies the ratios of all earlier tokens.
BOUNDS: dict[str, dict[torch.dtype, float]] = {
    "token": {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3},
    "response": {torch.float64: 1e-11, torch.float32: 2e-4, torch.bfloat16: 1e-2, torch.float16: 2e-3},
}
BOUND_COMPILED = 2e-5  # float32, other orders of the same operations
SHAPE = (16, 300)
SHAPES = ((7, 5), (33, 77), (5, 2048), (61, 1111))  # of micro-batches, one after the other through a compiled loss

Loss = Callable[..., tuple[Tensor, tuple[Tensor, ...]]]


class Row(NamedTuple):
    """The largest difference of a number of losses' values, gradients and statistics, relative to 1 + |value|."""

    what: str
    losses: int
    error: float
    bound: float


def specs(scope: str) -> list[LossSpec]:
    """Return every loss with every rule that a configuration can select, for a kl_scope."""
    rules = [LossSpec.parse(name, kl_coef=0.1) for name in LOSS_NAMES]
    for spec in list(rules):
        if spec.estimator == "differentiable":
            rules += [replace(spec, clip_scope=clip_scope) for clip_scope in ("none", "regularized", "hard")]
        if spec.clip == "ppo":
            rules.append(replace(spec, clip_branch="advantage"))
    return [replace(spec, kl_scope=scope) for spec in rules]


def run(name: str) -> int:
    """Print the rows of a device, cpu or cuda, and a verdict; 1 if one fails, 2 without the device, else 0."""
    if name == "cuda" and not torch.cuda.is_available():
        print("rpg verify: --device cuda: torch sees no GPU; rpg doctor says why", file=sys.stderr)
        return 2
    where = torch.cuda.get_device_name() if name == "cuda" else "the CPU"
    print(f"The losses on {where}, torch {torch.__version__}, against float64 on the CPU: minutes")
    print(
        f"error: largest difference of loss, gradient or statistic / (1 + |value|)\n\n{'':28}losses    error  allowed"
    )
    failed = 0
    for what, losses, error, bound in measure(torch.device(name)):
        failed += not error <= bound  # NaN fails
        verdict = "" if error <= bound else "  FAILED"
        print(f"{what:<28}{losses:>6}{error:9.1e}{bound:9.0e}{verdict}", flush=True)
    print(f"{failed} rows FAILED" if failed else "passed")
    return 1 if failed else 0


def measure(device: torch.device, compiled: Iterable[str] = tuple(LOSS_NAMES)) -> Iterator[Row]:
    """Yield a row for each kl_scope and dtype, then one for torch.compile. compiled: its losses, 10 to 25 s each."""
    for scope, bounds in BOUNDS.items():
        for dtype, bound in bounds.items():
            errors = [difference(token_loss_summary, spec, device, dtype, SHAPE) for spec in specs(scope)]
            yield Row(f"{str(dtype).removeprefix('torch.')}, kl_scope={scope}", len(errors), largest(errors), bound)
    yield of_compiled(device, [LossSpec.parse(name, kl_coef=0.1) for name in compiled])


def of_compiled(device: torch.device, chosen: list[LossSpec]) -> Row:
    """Compile the losses as a run does (actor.use_torch_compile), with micro-batches of changing shape."""
    from torch._dynamo.utils import counters  # two seconds

    # a run compiles one loss, this process all of them; beyond the limit torch would run them plain without a word
    torch._dynamo.config.recompile_limit = 4 * len(LOSS_NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loss that is not compiled fails by the number of graphs
        loss = tokens.compiled(device)
        before = counters["stats"]["unique_graphs"]
        errors = [difference(loss, spec, device, torch.float32, shape) for spec in chosen for shape in SHAPES]
    if (graphs := counters["stats"]["unique_graphs"] - before) < len(chosen):
        return Row(f"float32, only {graphs} compiled", len(chosen), math.inf, BOUND_COMPILED)
    return Row("float32, compiled", len(chosen), largest(errors), BOUND_COMPILED)


def difference(loss: Loss, spec: LossSpec, device: torch.device, dtype: torch.dtype, shape: tuple[int, int]) -> float:
    """Return the largest difference of loss, gradient and statistics from those of the same numbers in float64."""
    data, mask = inputs(shape, dtype)
    exact = {name: tensor.double() for name, tensor in data.items()}
    wanted = evaluate(token_loss_summary, spec, exact, mask, torch.device("cpu"))
    return ((evaluate(loss, spec, data, mask, device) - wanted).abs() / (1 + wanted.abs())).max().item()


def inputs(shape: tuple[int, int], dtype: torch.dtype) -> tuple[dict[str, Tensor], Tensor]:
    """Return log-probs, advantages and a mask; masked positions hold NaN, which must not reach the result."""
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(shape, generator=generator) * 3 - 0.5
    data = {
        "log_prob": old + torch.randn(shape, generator=generator) * 0.4,
        "advantages": torch.randn(shape, generator=generator),
        "ref_log_prob": old + torch.randn(shape, generator=generator) * 0.4,
    }
    mask = torch.rand(shape, generator=generator) > 0.3
    data["old_log_prob"] = old.masked_fill(~mask, math.nan)
    return {name: tensor.to(dtype) for name, tensor in data.items()}, mask


def evaluate(loss: Loss, spec: LossSpec, data: dict[str, Tensor], mask: Tensor, device: torch.device) -> Tensor:
    """Return loss, gradient and statistics, computed on the device, as one vector in float64 on the CPU."""
    moved = {name: tensor.to(device) for name, tensor in data.items()}
    log_prob = moved.pop("log_prob").clone().requires_grad_()
    value, statistics = loss(spec, log_prob=log_prob, mask=mask.to(device), **moved)
    value.sum().backward()
    assert log_prob.grad is not None
    tensors = (value.detach().flatten(), log_prob.grad.flatten(), torch.stack(list(statistics)).flatten())
    return torch.cat([tensor.cpu().double() for tensor in tensors])


def largest(values: list[float]) -> float:
    """Return the maximum; NaN if there is a NaN."""
    return torch.tensor(values, dtype=torch.float64).max().item()
