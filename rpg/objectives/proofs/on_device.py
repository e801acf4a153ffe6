"""The losses on a device, plain and compiled, against float64 on the CPU: `rpg verify --device cuda`."""

import json
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
    """One line of the table.

    Attributes:
        losses: how many combinations of loss and rules were compared.
        error: largest difference of a loss, gradient or statistic, relative to 1 + |value|.
        problem: why the check failed besides its error; "" if nothing else did.
    """

    what: str
    losses: int
    error: float
    bound: float
    problem: str = ""

    @property
    def fails(self) -> bool:
        """Whether the error exceeds the bound or is NaN, or there is another problem."""
        return bool(self.problem) or not self.error <= self.bound


def specs(scope: str) -> list[LossSpec]:
    """Return every loss with every rule that a configuration can select, for a kl_scope."""
    rules: list[LossSpec] = [LossSpec.parse(name, kl_coef=0.1) for name in LOSS_NAMES]
    for name, words in LOSS_NAMES.items():
        if words[1] == "differentiable":
            scopes = ("none", "regularized", "hard")
            rules += [LossSpec.parse(name, kl_coef=0.1, clip_scope=scope) for scope in scopes]
        if "ppo" in words:
            rules.append(LossSpec.parse(name, kl_coef=0.1, clip_branch="advantage"))
    return [replace(spec, kl_scope=scope) for spec in rules]


def measure(device: torch.device, compiled: Iterable[str] = tuple(LOSS_NAMES)) -> Iterator[Row]:
    """Yield a row for each kl_scope and dtype, then one for torch.compile.

    compiled: losses to compile, 10 to 25 s each.
    """
    for scope, bounds in BOUNDS.items():
        for dtype, bound in bounds.items():
            errors = [difference(token_loss_summary, spec, device, dtype, SHAPE) for spec in specs(scope)]
            what = f"{str(dtype).removeprefix('torch.')}, kl_scope={scope}"
            yield Row(what, len(errors), largest(errors), bound)
    yield of_compiled(device, [LossSpec.parse(name, kl_coef=0.1) for name in compiled])


def print_device(name: str, as_json: bool) -> int:
    """Print the rows of a device, cpu or cuda; 1 if one fails, 2 without the device, else 0."""
    if name == "cuda" and not torch.cuda.is_available():
        print("rpg verify: --device cuda: torch sees no GPU; rpg doctor says why", file=sys.stderr)
        return 2
    if not as_json:
        where = torch.cuda.get_device_name() if name == "cuda" else "the CPU"
        print(
            f"The losses on {where}, torch {torch.__version__}, against float64 on the CPU\n"
            "error: largest difference of loss, gradient or statistic / (1 + |value|)\n\n"
            f"{'':<28}{'losses':>6}{'error':>9}{'allowed':>9}"
        )
    rows = []
    for row in measure(torch.device(name)):
        rows.append(row)
        if not as_json:
            verdict = f"  FAILED {row.problem}" if row.fails else ""
            print(f"{row.what:<28}{row.losses:>6}{row.error:9.1e}{row.bound:9.0e}{verdict}", flush=True)
    failed = [row.what for row in rows if row.fails]
    if as_json:
        print(json.dumps({"device": [row._asdict() for row in rows], "failed": failed}, indent=2))
    return 1 if failed else 0


def of_compiled(device: torch.device, chosen: list[LossSpec]) -> Row:
    """Compile the losses as a run does (actor.use_torch_compile), with micro-batches of changing shape."""
    from torch._dynamo.utils import counters  # two seconds

    # a run compiles one loss, this process all of them; beyond the limit torch would run them plain without a word
    torch._dynamo.config.recompile_limit = 4 * len(LOSS_NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning is `problem`
        loss = tokens.compiled(device)
        before = counters["stats"]["unique_graphs"]
        errors = [difference(loss, spec, device, torch.float32, shape) for spec in chosen for shape in SHAPES]
    graphs = counters["stats"]["unique_graphs"] - before
    problem = "" if graphs >= len(chosen) else f"only {graphs} graphs were compiled"
    return Row("float32, compiled", len(chosen), largest(errors), BOUND_COMPILED, problem)


def difference(loss: Loss, spec: LossSpec, device: torch.device, dtype: torch.dtype, shape: tuple[int, int]) -> float:
    """Return the largest difference of loss, gradient and statistics from those of the same numbers in float64."""
    data, mask = inputs(shape, dtype)
    exact = {name: tensor.double() for name, tensor in data.items()}
    wanted = evaluate(token_loss_summary, spec, exact, mask, torch.device("cpu"))
    computed = evaluate(loss, spec, data, mask, device)
    return largest([((x - y).abs() / (1 + y.abs())).max().item() for x, y in zip(computed, wanted, strict=True)])


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


def evaluate(loss: Loss, spec: LossSpec, data: dict[str, Tensor], mask: Tensor, device: torch.device) -> list[Tensor]:
    """Return loss, gradient and statistics, computed on the device, in float64 on the CPU."""
    moved = {name: tensor.to(device) for name, tensor in data.items()}
    log_prob = moved.pop("log_prob").clone().requires_grad_()
    value, statistics = loss(spec, log_prob=log_prob, mask=mask.to(device), **moved)
    value.sum().backward()
    assert log_prob.grad is not None
    return [tensor.detach().cpu().double() for tensor in (value, log_prob.grad, torch.stack(list(statistics)))]


def largest(values: list[float]) -> float:
    """Return the maximum; NaN if there is a NaN."""
    return torch.tensor(values, dtype=torch.float64).max().item()
