"""How many responses a second one core scores, and what that is for a step of 8192 responses.

    python scripts/bench_rewards.py [--responses 8192]

Three mixes, each by both judges: what training sees (integer truths, answers right, wrong, missing and
malformed), what MATH-like evaluation sees (one answer in five is an expression), and the worst case that is
still honest: every answer different and every one an expression. Responses have 6,000 characters. Groups of
16 share a problem, as in the paper's runs, and half of a group gives the same answer. The process and its
children are held on one core. Processor time of this process is shown beside wall time: on a busy machine, and without
math-verify, it is the figure to go by.
"""

import argparse
import os
import random
import time
from collections.abc import Callable

from rpg.rewards import JUDGES, compute_score, release

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


MIXES: dict[str, tuple[str, Callable[[random.Random], tuple[str, list[str]]]]] = {
    "training": ("math-dapo", training),
    "evaluation": ("math-500", evaluation),
    "worst": ("math-500", worst),
}


def measure(name: str, judge: str, responses: int) -> None:
    """Score `responses` of one mix and print the rate."""
    rng = random.Random(0)
    data_source, make = MIXES[name]
    groups = [make(rng) for _ in range(max(1, responses // GROUP))]
    rows = [(f"{WORK}\n{ending}", truth) for truth, endings in groups for ending in endings]
    calls = release.sandbox.calls
    start, own = time.perf_counter(), time.process_time()
    for response, truth in rows:
        compute_score(data_source, response, truth, judge=judge)
    seconds, own = time.perf_counter() - start, time.process_time() - own
    scored = len(rows)
    calls = release.sandbox.calls - calls
    print(f"{name:11} {judge:9} {scored:6} responses {seconds:8.2f} s {scored / seconds:9.0f} /s", end=" ")
    print(f"{8192 * own / scored:6.2f} s of this process for 8192,", end=" ")
    print(f"{calls:6} by math-verify; 8192 take {8192 * seconds / scored:.1f} s")


def main() -> None:
    """Parse the arguments and run the three mixes by both judges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--responses", type=int, default=8192, help="of training; an eighth of the others (default: 8192)"
    )
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    start = time.perf_counter()
    release.judge_expression("$1+x$", "x+1", 10.0)
    print(f"loading math-verify, once a worker: {time.perf_counter() - start:.1f} s")
    for judge in JUDGES:
        measure("training", judge, args.responses)
        measure("evaluation", judge, args.responses // 8)
        measure("worst", judge, args.responses // 8)


if __name__ == "__main__":
    main()
