"""Measure the seconds that one core needs to score the 8192 responses of a step.

    python scripts/bench_rewards.py [--responses 8192]

Three mixes, each scored by both judges: training (integer truths; right, wrong, missing and malformed answers),
MATH-like evaluation (one answer in five is an expression), and the worst case (every answer is a different expression).
Responses have 6,000 characters. Groups of 16 share a problem, as in the paper's runs, and half of a group gives the
same answer. The process and its children are pinned to one core.
"""

import argparse
import os
import random
import time

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
    """Return a truth and the endings of a group of responses."""
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
    truth, answer = rng.choice(EXPRESSIONS)
    number = rng.randrange(10**6)
    offsets = [n if distinct or n % 2 else 0 for n in range(GROUP)]
    return truth % number, [f"Answer: {answer % (number + offset)}" for offset in offsets]


MIXES = {  # data source, how a group is made, share of the responses
    "training": ("math-dapo", training, 1),
    "evaluation": ("math-500", lambda rng: symbolic(rng, False) if rng.random() < 0.2 else training(rng), 8),
    "worst": ("math-500", lambda rng: symbolic(rng, True), 8),
}


def seconds(name: str, judge: str, responses: int) -> float:
    """Return the seconds for 8192 responses of a mix."""
    rng = random.Random(0)
    data_source, make, part = MIXES[name]
    groups = [make(rng) for _ in range(max(1, responses // part // GROUP))]
    rows = [(f"{WORK}\n{ending}", truth) for truth, endings in groups for ending in endings]
    start = time.perf_counter()
    for response, truth in rows:
        compute_score(data_source, response, truth, judge=judge)
    return 8192 * (time.perf_counter() - start) / len(rows)


def main() -> None:
    """Print the seconds of each mix for both judges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--responses", type=int, default=8192, help="of training; an eighth of the others (8192)")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    start = time.perf_counter()
    release.judge_expression("$1+x$", "x+1", 10.0)
    print(f"loading math-verify, once a worker: {time.perf_counter() - start:.1f} s")
    for name in MIXES:
        print(f"{name:11}", *(f"{judge} {seconds(name, judge, args.responses):6.2f} s" for judge in JUDGES))


if __name__ == "__main__":
    main()
