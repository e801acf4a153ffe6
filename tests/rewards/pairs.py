"""The pairs of pairs.txt and key.txt, and the one place where these tests call `verified`."""

from pathlib import Path
from typing import NamedTuple

from rpg.rewards import Score, compute_score

PAIRS, KEY = (Path(__file__).parent / name for name in ("pairs.txt", "key.txt"))


class Pair(NamedTuple):
    """One answer, the truth it stands against, whether they say the same, and what kind of case it is."""

    kind: str
    truth: str
    answer: str
    verdict: bool


def read_pairs(file: Path) -> list[Pair]:
    """Read a file. Raises ValueError for a line that is none of its four forms."""
    pairs, kind, truth = [], "", ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            kind, truth = line[1:-1], ""
        elif line.startswith("truth: "):
            truth = line.removeprefix("truth: ")
        elif line[:2] in ("+ ", "- ") and kind and truth:
            pairs.append(Pair(kind, truth, line[2:].replace("⏎", "\n"), line[0] == "+"))
        elif line and not line.startswith("#"):
            raise ValueError(f"{file.name}: {line!r}")
    return pairs


def judge(response: str, truth: str | float, data_source: str = "math-500", **settings) -> Score:
    """Score one response with `verified`."""
    return compute_score(data_source, response, truth, judge="verified", **settings)
