"""How a step's time and memory grow with its responses, their length and the ranks, on the CPU profile.

    python scripts/bench_scale.py                                       # 64, 256, 1024 responses of 32 and 128 tokens
    python scripts/bench_scale.py --responses 64 4096 --ranks 1 --steps 2

Every response has the whole length (ignore_eos), eight to a problem, so that what is fitted is not the policy's doing:

    seconds = a + b responses + c responses x tokens

by least squares of relative errors, for each number of ranks, phase by phase. The first step of a start does not count.
Toy model and data: `rpg demo --prepare-only`.
"""

import argparse
import itertools
import statistics
import sys

import numpy as np
from bench_step import PEAK, PHASES, measured

GROUP = 8
COLUMNS = (*PHASES, "rest", "step")


def main() -> None:
    """Measure what the command line asks for; print the measured steps and the fitted law."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=4, help="of a start, the first of them not counted")
    args = parser.parse_args()
    if min(len(set(args.responses)), len(set(args.tokens))) < 2:
        parser.error("the law wants two numbers of responses and two lengths")
    points = list(itertools.product(args.ranks, args.tokens, args.responses))
    if args.steps < 2:
        parser.error("--steps must be 2 or more: the first is not counted")
    found: dict[tuple[int, int, int], dict[str, float]] = {}
    for number, point in enumerate(points, 1):
        print("{} of {}: ranks {}, {} tokens, {} responses".format(number, len(points), *point), file=sys.stderr)
        steps = measured(overrides(*point), args.steps, warm=1)
        found[point] = {key: statistics.median(step[key] for step in steps) for key in (*COLUMNS, PEAK)}
    print("\n".join([*table(found), ""]))
    for ranks in args.ranks:
        print("\n".join([f"ranks: {ranks}", "", *law({k: v for k, v in found.items() if k[0] == ranks}), ""]))


def overrides(ranks: int, tokens: int, responses: int) -> list[str]:
    """The launch script's overrides for one point: two mini-batches, as in the demo."""
    prompts = responses // GROUP
    return [
        f"data.train_batch_size={prompts}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts // 2}",
        f"actor_rollout_ref.rollout.n={GROUP}",
        "actor_rollout_ref.rollout.ignore_eos=true",
        f"data.max_response_length={tokens}",
        f"trainer.n_gpus_per_node={ranks}",
    ]


def table(found: dict[tuple[int, int, int], dict[str, float]]) -> list[str]:
    """Markdown: a row a point, seconds by phase (medians), the actor's peak."""
    shown = [name for name in COLUMNS if any(point[name] for point in found.values())]
    rows = ["| ranks | tokens | responses | " + " | ".join(shown) + " | actor's peak, GiB |"]
    rows.append("|" + "--:|" * (len(shown) + 4))
    for point, medians in found.items():
        cells = [*map(str, point), *(f"{medians[name]:.2f}" for name in shown), f"{medians[PEAK]:.2f}"]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def law(found: dict[tuple[int, int, int], dict[str, float]]) -> list[str]:
    """Markdown: the fitted a, b and c of the larger phases and of the peak, and the largest relative miss of each."""
    terms = np.array([[1.0, responses, responses * tokens] for _, tokens, responses in found])
    rows = ["| | a, s | b, ms a response | c, ms a token | largest miss |", "|---|--:|--:|--:|--:|"]
    for name in ("gen", "old_log_prob", "update_actor", "step"):
        seen = np.array([medians[name] for medians in found.values()])
        fitted = np.linalg.lstsq(terms / seen[:, None], np.ones(len(seen)), rcond=None)[0]
        miss = np.abs(terms @ fitted / seen - 1).max()
        rows.append(f"| {name} | {fitted[0]:.2f} | {1e3 * fitted[1]:.2f} | {1e3 * fitted[2]:.3f} | {miss:.0%} |")
    peaks = np.array([medians[PEAK] for medians in found.values()])
    fitted = np.linalg.lstsq(terms, peaks, rcond=None)[0]
    miss = np.abs(terms @ fitted / peaks - 1).max()
    per_token = 1024 * fitted[1:]
    rows.append(f"| peak | {fitted[0]:.2f} GiB | {per_token[0]:.2f} MiB | {per_token[1]:.4f} MiB | {miss:.0%} |")
    return rows


if __name__ == "__main__":
    main()
