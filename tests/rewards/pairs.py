"""The pairs of pairs.txt, and the tests' call of `verified`."""

from pathlib import Path
from typing import NamedTuple

from rpg.rewards import Score, compute_score

PAIRS = Path(__file__).with_name("pairs.txt")


class Pair(NamedTuple):
    """One answer, a truth, whether they agree, and the kind of case."""

    kind: str
    truth: str
    answer: str
    verdict: bool


def read_pairs() -> list[Pair]:
    """Read pairs.txt. Raises ValueError for a line in none of its four forms."""
    pairs, kind, truth = [], "", ""
    for line in PAIRS.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            kind, truth = line[1:-1], ""
        elif line.startswith("truth: "):
            truth = line.removeprefix("truth: ")
        elif line[:2] in ("+ ", "- ") and kind and truth:
            pairs.append(Pair(kind, truth, line[2:].replace("⏎", "\n"), line[0] == "+"))
        elif line and not line.startswith("#"):
            raise ValueError(line)
    return pairs


def judge(response: str, truth: str | float, data_source: str = "math-500", **settings) -> Score:
    """Score one response with `verified`."""
    return compute_score(data_source, response, truth, judge="verified", **settings)


def main() -> None:
    """Print the counts of docs/judges.md: pairs accepted, by label and judge."""
    pairs = read_pairs()
    for label in (True, False):
        chosen = [pair for pair in pairs if pair.verdict == label]
        for name in ("release", "verified"):
            scores = (compute_score("math-500", f"Answer: {pair.answer}", pair.truth, judge=name) for pair in chosen)
            print(f"{len(chosen)} {'right' if label else 'wrong'} pairs, accepted by {name}:", end=" ")
            print(sum(score["acc"] > 0 for score in scores))


if __name__ == "__main__":
    main()
