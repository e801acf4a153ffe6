#!/usr/bin/env python3
"""Count the right and wrong answers that `verified` accepts in a file of labelled pairs.

python scripts/judge_pairs.py PAIRS.jsonl [--math-verify] [--missed]

A line has `answer`, `gold`, `label` (1 right, 0 wrong) and `form`: "answer", the bare answer, or "response".
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from rpg.rewards.verified import judge_response


def verified(response: str, gold: str) -> bool:
    """Return the verdict of `verified`."""
    return judge_response(response, gold)[0]


def math_verify(response: str, gold: str) -> bool:
    """Return the verdict of Math-Verify with its defaults."""
    from math_verify import parse, verify

    return verify(parse(gold if "$" in gold else f"${gold}$"), parse(response))


def judged(pairs: list[dict], judge: Callable[[str, str], bool]) -> list[tuple[bool, float]]:
    """Return verdict and milliseconds of processor time for each pair."""
    judge("\\boxed{1+x}", "x+1")  # imports
    results = []
    for pair in pairs:
        response = pair["answer"] if pair["form"] == "response" else f"\\boxed{{{pair['answer']}}}"
        start = time.process_time()
        verdict = judge(response, pair["gold"])
        results.append((verdict, 1000 * (time.process_time() - start)))
    return results


def main() -> None:
    """Print a table with a row for each judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--math-verify", action="store_true", help="judge with Math-Verify too")
    parser.add_argument("--missed", action="store_true", help="print the pairs that verified misjudges")
    arguments = parser.parse_args()
    pairs = [json.loads(line) for line in arguments.pairs.read_text(encoding="utf-8").splitlines()]
    labels = [bool(pair["label"]) for pair in pairs]
    print(
        f"| judge | right accepted, of {sum(labels)} | wrong accepted, of {labels.count(False)} | median ms | max ms |"
    )
    print("|---|---|---|---|---|")
    for judge in (verified, math_verify) if arguments.math_verify else (verified,):
        results = judged(pairs, judge)
        right, wrong = (sum(verdict for (verdict, _), is_right in zip(results, labels, strict=True) if is_right == kind)
                        for kind in (True, False))  # fmt: skip
        times = [milliseconds for _, milliseconds in results]
        print(f"| {judge.__name__} | {right} | {wrong} | {statistics.median(times):.2f} | {max(times):.0f} |")
        if arguments.missed and judge is verified:
            for pair, (verdict, _), label in zip(pairs, results, labels, strict=True):
                if verdict != label:
                    print(f"{'+' if label else '-'} {pair['answer'][-80:]!r} for {pair['gold'][:80]!r}")


if __name__ == "__main__":
    main()
