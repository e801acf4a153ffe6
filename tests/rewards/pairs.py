"""The pairs of pairs.txt, and the one place where these tests call the judge."""

from pathlib import Path
from typing import NamedTuple

from rpg.rewards import Score, compute_score

FILE = Path(__file__).parent / "pairs.txt"


class Pair(NamedTuple):
    """One answer, the truth it stands against, whether they say the same, and what kind of case it is."""

    kind: str
    truth: str
    answer: str
    verdict: bool


def read_pairs() -> list[Pair]:
    """Read the file. Raises ValueError for a line that is none of its four forms."""
    pairs, kind, truth = [], "", ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            kind, truth = line[1:-1], ""
        elif line.startswith("truth: "):
            truth = line.removeprefix("truth: ")
        elif line[:2] in ("+ ", "- ") and kind and truth:
            pairs.append(Pair(kind, truth, line[2:].replace("⏎", "\n"), line[0] == "+"))
        elif line and not line.startswith("#"):
            raise ValueError(f"{FILE.name}: {line!r}")
    return pairs


def judge(response: str, truth: str | float, data_source: str = "math-500", **settings) -> Score:
    """Score one response with the judge these tests are about."""
    return compute_score(data_source, response, truth, judge="verified", **settings)
