#!/usr/bin/env python3
"""Check the losses on one GPU; needs torch and this checkout alone: no verl, Ray, vLLM, and no installation of rpg.

    PYTHONPATH=. python scripts/gpu_losses.py > losses.json         # a GPU; 4 minutes
    PYTHONPATH=. python scripts/gpu_losses.py --device cpu --small  # what it does, on a CPU

A line per check goes to stderr, all figures as JSON to stdout; exit code 1 if a check failed.
"""

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import torch
from gpu_report import Figures, Report, process_group, require, within
from torch import Tensor

from rpg import gpu_host
from rpg.objectives import LOSS_NAMES, LossSpec, exact, token_loss_summary, tokens
from rpg.objectives.losses import DIVERGENCES

MIB = 2**20
# device against CPU: rounding of exp and of sums in another order, relative to 1 + |value|
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
SHAPES = ((7, 5), (33, 77), (5, 2048), (61, 1111))  # of micro-batches, one after the other through a compiled loss

Loss = Callable[..., tuple[Tensor, tuple[Tensor, ...]]]


def main() -> int:
    """Run all checks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="fewer problems, tokens and compiled losses")
    args = parser.parse_args()
    device = torch.device(args.device)
    rows, length = (4, 64) if args.small else (32, 8192)
    compiled_names = ["rpg_rf_urkl_clip_ppo"] if args.small else list(LOSS_NAMES)
    report = Report("gpu_losses.py", args.device, rows=rows, tokens=length)
    report.check("driver, Python.h, C compiler", partial(machine, device))
    if device.type == "cuda":
        report.check("a context on the GPU", partial(context, device))
        if not report.checks[-1]["ok"]:
            return report.end()
    report.check("exact gradients, float64", partial(exactness, device, 2 if args.small else 5))
    for dtype, bound in BOUNDS.items():
        name = f"{len(specs())} losses against the CPU, {str(dtype).removeprefix('torch.')}"
        report.check(name, partial(against_cpu, device, dtype, bound, (4, 50) if args.small else (16, 300)))
    report.check("float64 sums over a process group", partial(sums, device))
    report.check(f"torch.compile, {len(compiled_names)} losses, {len(SHAPES)} shapes",
                 partial(compilation, device, compiled_names))  # fmt: skip
    report.check("time and memory of vanilla + k3", partial(cost, device, rows, length, None, False))
    for name in ("rpg_urkl", "rpg_rf_urkl_clip_ppo") if args.small else LOSS_NAMES:
        for compiled in (False, True):
            if compiled and name not in compiled_names:
                continue
            label = f"time and memory of {name}{', compiled' if compiled else ''}"
            report.check(label, partial(cost, device, rows, length, name, compiled))
    return report.end()


def specs() -> list[LossSpec]:
    """Return every loss with every rule that a configuration can select."""
    found = [LossSpec.parse(name, kl_coef=0.1) for name in LOSS_NAMES]
    for name, words in LOSS_NAMES.items():
        if words[1] == "differentiable":
            scopes = ("none", "regularized", "hard")
            found += [LossSpec.parse(name, kl_coef=0.1, clip_scope=scope) for scope in scopes]
        if "ppo" in words:
            found.append(LossSpec.parse(name, kl_coef=0.1, clip_branch="advantage"))
    return found


def machine(device: torch.device) -> Figures:
    """Return the tools of Triton; a driver that is too old for torch is refused."""
    major = int((torch.version.cuda or str(gpu_host.CUDA)).partition(".")[0])
    old = gpu_host.old_driver(major) if device.type == "cuda" else None
    require(old is None, f"driver {' '.join(old or ())}")
    lacking = [f"{name}: {wrong}; {remedy}" for name, wrong, remedy in gpu_host.build_tools()]
    require(not lacking, "; ".join(lacking))
    return {"Python.h": "found", "compiler": gpu_host.compiler()}


def context(device: torch.device) -> Figures:
    """Return the memory that a context takes, and check that counting GPUs makes none."""

    def used() -> int:
        free, total = torch.cuda.mem_get_info(device)
        return (total - free) // MIB

    require(torch.cuda.device_count(), "torch sees no GPU")
    initialized = torch.cuda.is_initialized()
    properties = torch.cuda.get_device_properties(device)
    torch.zeros(1, device=device)
    return {
        "GPU": properties.name, "GiB": round(properties.total_memory / 2**30, 1), "compute":
        f"{properties.major}.{properties.minor}", "counting opens a context": initialized, "MiB in use": used(),
    }  # fmt: skip


def exactness(device: torch.device, problems: int) -> Figures:
    """Compare gradients with those of the exact objective over enumerated policies, on the device."""
    generator, worst, count = torch.Generator(device).manual_seed(0), 0.0, 0
    with torch.device(device):
        for name, (divergence, kind, clip) in LOSS_NAMES.items():
            if clip in ("hard", "ppo"):  # biased by design
                continue
            scope = {"clip_scope": "none"} if kind == "differentiable" else {}
            loss = exact.spec_loss(LossSpec.parse(name, kl_coef=0.1, **scope))
            pairs = []
            for own_reference in (False, True) * problems:
                problem = exact.random_problem(generator, 7, 0.1, own_reference)
                gradient = exact.loss_gradient(problem, loss, DIVERGENCES[divergence].normalized)
                pairs.append((gradient, exact.objective_gradient(problem, divergence)))
            worst, count = max(worst, float(exact.compare(pairs).error)), count + 1
    return {"losses": count, "largest error": within("error", worst, 1e-12)}


def inputs(shape: tuple[int, int], dtype: torch.dtype) -> tuple[dict[str, Tensor], Tensor]:
    """Return log-probs, advantages and a mask; masked positions hold NaN, which must not reach the result."""
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(shape, generator=generator) * 3 - 0.5
    data = {
        "log_prob": old + torch.randn(shape, generator=generator) * 0.4,
        "old_log_prob": old,
        "advantages": torch.randn(shape, generator=generator),
        "ref_log_prob": old + torch.randn(shape, generator=generator) * 0.4,
    }
    mask = torch.rand(shape, generator=generator) > 0.3
    data["old_log_prob"] = old.masked_fill(~mask, math.nan)
    return {name: tensor.to(dtype) for name, tensor in data.items()}, mask


def evaluate(loss: Loss, spec: LossSpec, data: dict[str, Tensor], mask: Tensor, device: torch.device) -> list[Tensor]:
    """Return loss, gradient and statistics, computed on the device."""
    moved = {name: tensor.to(device) for name, tensor in data.items()}
    log_prob = moved.pop("log_prob").clone().requires_grad_()
    value, statistics = loss(spec, log_prob=log_prob, mask=mask.to(device), **moved)
    value.sum().backward()
    assert log_prob.grad is not None
    return [value.detach().cpu(), log_prob.grad.cpu(), torch.stack([one.detach().cpu().double() for one in statistics])]


def apart(first: list[Tensor], second: list[Tensor]) -> float:
    """Return the largest difference relative to 1 + |value|; NaN if there is a NaN."""
    return torch.stack([((x - y).abs() / (1 + y.abs())).double().max() for x, y in zip(first, second, strict=True)]
                       ).max().item()  # fmt: skip


def against_cpu(device: torch.device, dtype: torch.dtype, bound: float, shape: tuple[int, int]) -> Figures:
    """Compare loss, gradient and statistics of every loss with the CPU's."""
    data, mask = inputs(shape, dtype)
    cpu = torch.device("cpu")
    differences = [
        apart(
            evaluate(token_loss_summary, spec, data, mask, device), evaluate(token_loss_summary, spec, data, mask, cpu)
        )
        for spec in specs()
    ]
    return {"largest difference": within("difference", largest(differences), bound)}


def largest(values: list[float]) -> float:
    """Return the maximum; NaN if there is a NaN."""
    return torch.tensor(values, dtype=torch.float64).max().item()


def compilation(device: torch.device, names: list[str]) -> Figures:
    """Compile the losses as a run does, with micro-batches of changing shape; count graphs and breaks."""
    from torch._dynamo.utils import counters

    torch._dynamo.config.recompile_limit = 4 * len(LOSS_NAMES)  # a run compiles one loss, this process all of them
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=r"torch\..*")
        loss = tokens.compiled(device)
    counters.clear()
    differences = []
    for spec in (LossSpec.parse(name, kl_coef=0.1) for name in names):
        for shape in SHAPES:
            data, mask = inputs(shape, torch.float32)
            plain = evaluate(token_loss_summary, spec, data, mask, device)
            differences.append(apart(evaluate(loss, spec, data, mask, device), plain))
    breaks = sum(counters["graph_break"].values())
    require(not breaks, f"{breaks} graph breaks: {dict(counters['graph_break'])}")
    graphs = counters["stats"]["unique_graphs"]
    return {"largest difference": within("difference", largest(differences), 2e-5), "graphs": graphs, "breaks": breaks}


def sums(device: torch.device) -> Figures:
    """Add float64 numbers over a group of one rank, as the actor's metrics: NCCL on a GPU, gloo on a CPU."""
    with process_group(device.type):
        total = torch.full((7,), 1 / 3, dtype=torch.float64, device=device)
        torch.distributed.all_reduce(total)
        torch.distributed.barrier()
    require(total.tolist() == [1 / 3] * 7, f"sums are {total.tolist()}")
    return {"backend": "nccl" if device.type == "cuda" else "gloo"}


def vanilla(data: dict[str, Tensor], mask: Tensor) -> None:
    """Forward and backward of PPO's dual clip with the k3 loss, the usual GRPO, and one metric."""
    log_prob = data["log_prob"].clone().requires_grad_()
    old, advantages, ref = (data[name].masked_fill(~mask, 0) for name in ("old_log_prob", "advantages", "ref_log_prob"))
    ratio = (log_prob - old).clamp(-20, 20).exp()
    loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.28))
    loss = torch.where(advantages < 0, torch.minimum(loss, -advantages * 10), loss)
    kl = (ref - log_prob).clamp(-20, 20)
    loss = loss + 1e-4 * (kl.exp() - kl - 1).clamp(-10, 10)
    ((loss * mask).sum() / mask.sum()).backward()
    loss.detach().mean().item()


def of_ours(spec: LossSpec, loss: Loss, data: dict[str, Tensor], mask: Tensor) -> None:
    """Forward and backward of one of our losses, and its metrics."""
    log_prob = data["log_prob"].clone().requires_grad_()
    others = {name: tensor for name, tensor in data.items() if name != "log_prob"}
    value, statistics = loss(spec, log_prob=log_prob, mask=mask, **others)
    torch.stack([value.detach().double().sum(), *(one.double() for one in statistics)]).tolist()
    value.sum().backward()


def cost(device: torch.device, rows: int, length: int, name: str | None, compiled: bool) -> Figures:
    """Return a loss's time, peak memory beyond its inputs, and ratio to vanilla + k3. name: None for vanilla + k3."""
    data, mask = inputs((rows, length), torch.float32)
    data, mask = {key: tensor.to(device) for key, tensor in data.items()}, mask.to(device)
    base = partial(vanilla, data, mask)
    if name is None:
        milliseconds, memory = timed(base, device)
        return {"ms": round(milliseconds, 3), "MiB": memory}
    loss = tokens.compiled(device) if compiled else token_loss_summary
    milliseconds, memory = timed(partial(of_ours, LossSpec.parse(name, kl_coef=1e-4), loss, data, mask), device)
    ratio = milliseconds / timed(base, device)[0]
    return {"ms": round(milliseconds, 3), "of vanilla + k3": round(ratio, 2), "MiB": memory}


def timed(step: Callable[[], None], device: torch.device) -> tuple[float, float | None]:
    """Return the mean milliseconds of a step and its peak MiB; None for the memory on a CPU."""
    cuda = device.type == "cuda"
    for _ in range(3):
        step()
    before = 0
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    repeats, began = 20 if cuda else 3, time.perf_counter()
    for _ in range(repeats):
        step()
    if cuda:
        torch.cuda.synchronize()
    milliseconds = (time.perf_counter() - began) / repeats * 1e3
    return milliseconds, round((torch.cuda.max_memory_allocated() - before) / MIB, 1) if cuda else None


if __name__ == "__main__":
    sys.exit(main())
