"""Benchmarks: time and memory of the losses beside verl's, and seconds to score a step.

    python scripts/bench.py losses                   # 32 x 8192 tokens with a reference, one thread
    python scripts/bench.py losses --device cuda --rows 8 --tokens 4096 --vocabulary 150000
    python scripts/bench.py rewards                  # one core

Losses: each round runs all candidates in turn, so that other load on the machine affects all of them, and each twice in
a row, of which the second is timed. The result is the median over rounds of the ratio within a round. Every candidate
computes its metrics, as in a training step. With --vocabulary it begins with bfloat16 logits, as behind a model. Memory
is the peak that a call allocates beyond its inputs, gradient included.

Rewards: three mixes of 6,000 characters a response, scored by each judge. Groups of 16 share a problem, and half of a
group gives the same answer.
"""

import argparse
import functools
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rpg.objectives import LOSS_NAMES
from rpg.rewards import JUDGES, compute_score, release

BASE = "vanilla + k3"  # verl's vanilla loss and its k3 loss, as in GRPO
RESPONSES, GROUP = 8192, 16
WORK = "We expand the square, collect the terms and compare both sides of the equation. " * 75  # 6,000 characters
EXPRESSIONS = (
    (r"\frac{%d\sqrt{3}}{6}", r"\frac{%d}{2\sqrt{3}}"),
    ("(x-%d)(x+2)", "(x+2)(x-%d)"),
    (r"\left(%d, \frac{\pi}{2}\right)", r"(%d, \pi/2)"),
    (r"\sqrt{%d}", r"\sqrt{%d}+1"),
)


def main() -> None:
    """Run one benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("losses", "rewards"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--names", nargs="*", default=list(LOSS_NAMES), choices=LOSS_NAMES, metavar="LOSS")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, help="also compute log pi_theta, from logits of this many tokens")
    args = parser.parse_args()
    if args.what == "losses":
        torch.set_num_threads(1)
        data = make_batch(args.rows, args.tokens, args.vocabulary, torch.device(args.device))
        losses(args.names, args.rounds, data)
    else:
        rewards()


def losses(names: list[str], rounds: int, data: dict[str, torch.Tensor]) -> None:
    """Time forward, backward and metrics of every loss, plain and compiled, and of verl's losses."""
    from rpg.verl_plugin import register

    torch._dynamo.config.recompile_limit = 4 * len(LOSS_NAMES)  # a run compiles one loss, this process all of them
    register()
    rows, tokens = data["old_log_prob"].shape
    device = data["old_log_prob"].device
    candidates = {name: functools.partial(step, name, data) for name in ("vanilla", BASE)}
    for name in names:
        candidates[name] = functools.partial(step, name, data)
        candidates[f"{name}, compiled"] = functools.partial(step, name, data, compiled=True)
    times = alternate(candidates, rounds, device)
    inputs = f"bfloat16, {data['logits'].shape[-1]} logits each" if "logits" in data else "float32"
    print(f"{rows} x {tokens} {inputs}, with a reference, forward + backward + metrics; torch {torch.__version__}\n")
    print(f"{'':<32} {'median ms':>9} {f'time/({BASE})':>19} {'B/token':>8}")
    for name, run in candidates.items():
        ratio = statistics.median(mine / base for mine, base in zip(times[name], times[BASE], strict=True))
        memory = peak_extra_bytes(run, device) / (rows * tokens)
        print(f"{name:<32} {statistics.median(times[name]) * 1e3:9.1f} {ratio:19.2f} {memory:8.1f}")


def make_batch(rows: int, tokens: int, vocabulary: int | None, device: torch.device) -> dict[str, torch.Tensor]:
    """Return responses of half to full length whose ratios reach every clip bound; with logits if `vocabulary`."""
    generator = torch.Generator().manual_seed(0)

    def normal(scale: float, columns: int = tokens) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator).to(device) * scale

    lengths = torch.randint(tokens // 2, tokens + 1, (rows, 1), generator=generator)
    batch = {"response_mask": (torch.arange(tokens) < lengths).to(device)}
    if vocabulary:
        on_device = torch.Generator(device).manual_seed(0)
        shape = (rows, tokens, vocabulary)
        batch["logits"] = torch.randn(shape, generator=on_device, device=device, dtype=torch.bfloat16)
        batch["labels"] = batch["logits"][..., :100].argmax(-1)  # so that log-probs are not all tiny
        batch["log_prob"] = log_probs(batch["logits"], batch["labels"])
    else:
        batch["log_prob"] = -torch.rand(rows, tokens, generator=generator).to(device) * 3
    batch["old_log_prob"] = batch["log_prob"] - normal(0.2)
    batch["ref_log_prob"] = batch["old_log_prob"] + normal(0.1)
    batch["advantages"] = normal(1.0, 1).expand(rows, tokens).contiguous()
    return batch


def log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return log pi_theta as verl's actor computes it."""
    from verl.utils.torch_functional import logprobs_from_logits

    return logprobs_from_logits(logits, labels, inplace_backward=False).float()


@functools.cache
def actor_config(compiled: bool) -> Any:
    """Return verl's configuration of an actor."""
    from verl.workers.config import FSDPActorConfig

    from rpg.verl_plugin.config import RPGPolicyLossConfig

    return FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio_high=0.28, clip_ratio_c=10.0,
        use_torch_compile=compiled, policy_loss=RPGPolicyLossConfig(kl_coef=1e-4),
    )  # fmt: skip


def step(name: str, data: dict[str, torch.Tensor], compiled: bool = False) -> None:
    """Run forward and backward as verl's ppo_loss does; RPG's losses use the reference of verl's k3."""
    from verl.trainer.ppo import core_algos

    from rpg.verl_plugin.policy_loss import MICRO_BATCH, MicroBatch

    mask = data["response_mask"]
    if "logits" in data:
        log_prob = log_probs(data["logits"].detach().requires_grad_(), data["labels"])
    else:
        log_prob = data["log_prob"].detach().requires_grad_()
    loss_mode, plus, _ = name.partition(" + ")
    MICRO_BATCH.set(MicroBatch(ref_log_prob=data["ref_log_prob"]))  # as our actor loss does; verl's losses do not look
    loss, _ = core_algos.get_policy_loss_fn(loss_mode)(
        old_log_prob=data["old_log_prob"], log_prob=log_prob, advantages=data["advantages"], response_mask=mask,
        loss_agg_mode="token-mean", config=actor_config(compiled), rollout_is_weights=None,
    )  # fmt: skip
    if plus:
        kl = core_algos.kl_penalty(log_prob, data["ref_log_prob"], "low_var_kl")
        kl_loss = core_algos.agg_loss(kl, mask, "token-mean")
        loss = loss + 1e-4 * kl_loss
        kl_loss.item()  # its metric
    loss.backward()


def alternate(candidates: dict[str, Callable], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """Return each candidate's seconds per round: the second of two runs in a row."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            run()
            synchronize()
            start = time.perf_counter()
            run()
            synchronize()
            times[name].append(time.perf_counter() - start)
    return times


def peak_extra_bytes(run: Callable, device: torch.device) -> int:
    """Return the peak memory that torch allocates during run() beyond what was allocated before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    current = peak = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        current += event["args"]["Bytes"]
        peak = max(peak, current)
    return peak


def training(rng: random.Random) -> tuple[str, list[str]]:
    """Return a truth and the endings of a group: right, wrong, missing and malformed integers."""
    truth, common = rng.randrange(1000), rng.randrange(1000)
    shapes = (
        f"Answer: {truth}",
        f"Answer: ${truth}$",
        f"\\boxed{{{common}}}",
        "",
        f"Answer: {common + 1}.",
        "Answer: n+1",
    )
    return str(truth), [f"Answer: {common}" if n % 2 else rng.choice(shapes) for n in range(GROUP)]


def symbolic(rng: random.Random, distinct: bool) -> tuple[str, list[str]]:
    """Return a truth and the endings of a group: expressions, all different or half of them equal."""
    truth, answer = rng.choice(EXPRESSIONS)
    number = rng.randrange(10**6)
    offsets = [n if distinct or n % 2 else 0 for n in range(GROUP)]
    return truth % number, [f"Answer: {answer % (number + offset)}" for offset in offsets]


MIXES = {  # data source, how a group is made, share of the responses
    "training": ("math-dapo", training, 1),
    "evaluation": ("math-500", lambda rng: symbolic(rng, False) if rng.random() < 0.2 else training(rng), 8),
    "worst": ("math-500", lambda rng: symbolic(rng, True), 8),
}


def rewards() -> None:
    """Print the seconds of a step's responses of each mix, for each judge."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    start = time.perf_counter()
    release.judge_expression("$1+x$", "x+1", 10.0)
    print(f"loading math-verify, once a worker: {time.perf_counter() - start:.1f} s")
    for name in MIXES:
        print(f"{name:11}", *(f"{judge} {seconds(name, judge):6.2f} s" for judge in JUDGES))


def seconds(name: str, judge: str) -> float:
    """Return the seconds for RESPONSES responses of a mix."""
    rng = random.Random(0)
    data_source, make, part = MIXES[name]
    groups = [make(rng) for _ in range(RESPONSES // part // GROUP)]
    rows = [(f"{WORK}\n{ending}", truth) for truth, endings in groups for ending in endings]
    start = time.perf_counter()
    for response, truth in rows:
        compute_score(data_source, response, truth, judge=judge)
    return RESPONSES * (time.perf_counter() - start) / len(rows)


if __name__ == "__main__":
    main()
