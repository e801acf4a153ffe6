"""How many responses a second one core scores, and what that is for a step of 8192 responses.

    python scripts/bench_rewards.py [--responses 8192]

Three mixes: what training sees (integer truths, answers right, wrong, missing and malformed), what
MATH-like evaluation sees (one answer in five needs math-verify), and the worst case that is still honest:
every answer different and every one for math-verify. Groups of 16 responses share a problem, as in the
paper's runs, and half of a group gives the same answer. The process and its children are held on one core.
"""

import argparse
import os
import random
import time
from collections.abc import Callable

from rpg.rewards import compute_score, symbolic

GROUP = 16
WORK = "We expand the square, collect the terms and compare both sides of the equation. " * 75  # 6,000 characters
EXPRESSIONS = (
    (r"\frac{%d\sqrt{3}}{6}", r"\frac{%d}{2\sqrt{3}}"),
    ("(x-%d)(x+2)", "(x+2)(x-%d)"),
    (r"\left(%d, \frac{\pi}{2}\right)", r"(%d, \pi/2)"),
    (r"\sqrt{%d}", r"\sqrt{%d}+1"),
)


def training(rng: random.Random) -> tuple[str, list[str]]:
    truth = rng.randrange(1000)
    common = rng.randrange(1000)
    shapes = (
        f"Answer: {truth}",
        f"Answer: ${truth}$",
        f"\\boxed{{{common}}}",
        "",
        f"Answer: {common + 1}.",
        "Answer: n+1",
    )
    return str(truth), [f"Answer: {common}" if n % 2 else rng.choice(shapes) for n in range(GROUP)]


def symbolic_group(rng: random.Random, distinct: bool) -> tuple[str, list[str]]:
    truth, answer = rng.choice(EXPRESSIONS)
    number = rng.randrange(10**6)
    offsets = [n if distinct or n % 2 else 0 for n in range(GROUP)]
    return truth % number, [f"Answer: {answer % (number + offset)}" for offset in offsets]


def evaluation(rng: random.Random) -> tuple[str, list[str]]:
    return symbolic_group(rng, distinct=False) if rng.random() < 0.2 else training(rng)


def worst(rng: random.Random) -> tuple[str, list[str]]:
    return symbolic_group(rng, distinct=True)


def measure(name: str, make: Callable[[random.Random], tuple[str, list[str]]], responses: int) -> None:
    """Score `responses` of one mix and print the rate."""
    rng = random.Random(0)
    groups = [make(rng) for _ in range(responses // GROUP)]
    calls = symbolic.counts.calls
    start = time.perf_counter()
    for truth, endings in groups:
        for ending in endings:
            compute_score("math-500", f"{WORK}\n{ending}", truth)
    seconds = time.perf_counter() - start
    scored = len(groups) * GROUP
    calls = symbolic.counts.calls - calls
    print(f"{name:11} {scored:6} responses {seconds:8.2f} s {scored / seconds:9.0f} /s", end=" ")
    print(f"{calls:6} by math-verify; 8192 responses take {8192 * seconds / scored:.1f} s")


def main() -> None:
    """Parse the arguments and run the three mixes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--responses", type=int, default=8192, help="of each mix (default: 8192)")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    start = time.perf_counter()
    symbolic.is_equal("x+1", "1+x", 10.0)
    print(f"loading math-verify, once a worker: {time.perf_counter() - start:.1f} s")
    measure("training", training, args.responses)
    measure("evaluation", evaluation, args.responses)
    measure("worst", worst, max(GROUP, args.responses // 8))


if __name__ == "__main__":
    main()
