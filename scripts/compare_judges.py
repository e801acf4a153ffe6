r"""Compare the verifiers `release` and `verified` on 6,000 generated endings of responses, as a markdown table.

    python scripts/compare_judges.py [--count 6000] [--seed 0] [--into docs/judges.md]

A kind is one way to write the last line. A person would call all endings of a kind right, or all wrong.
--into replaces the table between the two marks in FILE.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rpg.rewards import JUDGES, compute_score

BEGIN, END = "<!-- scripts/compare_judges.py -->\n", "<!-- end -->\n"
WORK = "We expand the square, collect the terms and compare both sides of the equation.\n"
AFTER = "\nLet us check this once more by putting it into the equation that we began with." * 5  # 400 characters


@dataclass(frozen=True)
class Kind:
    """`make(rng)` gives (response, truth); `right` is what a person says."""

    name: str
    right: bool
    data_source: str
    make: Callable[[random.Random], tuple[str, str]]


def integer(name: str, ending: str, right: bool = True, low: int = 1, high: int = 999) -> Kind:
    """A kind of the integer sets: {n} stands for the truth, {m} for another number, {two} for twice the truth."""

    def make(rng: random.Random) -> tuple[str, str]:
        n = rng.randint(low, high)
        m = rng.choice([k for k in range(low, low + 50) if k != n])
        text = ending
        for key, value in {"{n}": n, "{m}": m, "{two}": 2 * n, "{n:,}": f"{n:,}", "{n:03}": f"{n:03}"}.items():
            text = text.replace(key, str(value))
        wide = "".join(chr(0xFF10 + int(digit)) for digit in str(n))
        return WORK * rng.randint(1, 5) + text.replace("{wide}", wide), str(n)

    return Kind(name, right, "math-dapo", make)


def expression(name: str, truth: str, ending: str, right: bool = True) -> Kind:
    """A kind of the sets with expressions: {p} and {q} stand for small primes, the same in truth and ending."""

    def make(rng: random.Random) -> tuple[str, str]:
        p, q = rng.sample((3, 7, 11, 13, 17, 19, 23), 2)  # p / q has no end as a decimal
        numbers = {
            "{p}": p,
            "{q}": q,
            "{2p}": 2 * p,
            "{2q}": 2 * q,
            "{p/q}": f"{p / q:.10f}",
            "{p/q:2}": f"{p / q:.2f}",
        }
        texts = [truth, ending]
        for key, value in numbers.items():
            texts = [text.replace(key, str(value)) for text in texts]
        return WORK * rng.randint(1, 5) + texts[1], texts[0]

    return Kind(name, right, "minerva-math", make)


KINDS = (
    integer("a number", "Answer: {n}"),
    integer("in dollars", "Answer: ${n}$"),
    integer("in dollars, with a full stop", "Answer: ${n}$."),
    integer("with a full stop", "Answer: {n}."),
    integer("the mark in bold", "**Answer:** {n}"),
    integer("the number in bold", "Answer: **{n}**"),
    integer("in a sentence", "Answer: The value is {n}"),
    integer("in a sentence, in dollars", "Answer: The value is ${n}$"),
    integer(r"`\boxed{}` after the mark", r"Answer: \boxed{{n}}"),
    integer(r"`\boxed{}` and no mark", r"So the value is $\boxed{{n}}$."),
    integer("on the next line", "Answer:\n{n}"),
    integer(r"in `\[ \]` on the next lines", "Answer:\n\\[\n{n}\n\\]"),
    integer("an equation", "Answer: x = {n}"),
    integer("a unit of the rule's list", "Answer: {n} cm"),
    integer("a unit that is not in it", "Answer: {n} liters"),
    integer("zeros in front", "Answer: {n:03}", high=99),
    integer("a decimal", "Answer: {n}.0"),
    integer("a comma in thousands", "Answer: {n:,}", low=1000, high=99999),
    integer("a fraction to reduce", r"Answer: $\frac{{two}}{2}$"),
    integer("full-width digits", "Answer: {wide}"),
    integer("a full-width colon", "Answer\uff1a{n}"),
    integer("a remark on the same line", "Answer: {n} (checked above)"),
    integer("text after it, 40 characters", "Answer: {n}\n\nThis is what we were to show in the end."),
    integer("text after it, 400 characters", "Answer: {n}" + AFTER),
    integer("an answer taken back", "Answer: {m}\nNo, that was wrong.\nAnswer: {n}"),
    integer("an empty mark at the end", "Answer: {n}\nAnswer:\n"),
    integer("another number", "Answer: {m}", right=False),
    integer("no answer", "So the value is {n}, as we saw.", right=False),
    integer(r"another number after the right `\boxed{}`", r"\boxed{{n}}" + "\nAnswer: {m}", right=False),
    integer("in dollars, and denied", "Answer: ${n}$ is not the value", right=False),
    integer("two answers, the right one in dollars", "Answer: {m} or perhaps ${n}$", right=False),
    expression("the truth in dollars", r"\frac{{p}}{{q}}", r"Answer: $\frac{{p}}{{q}}$"),
    expression(r"the truth in `\boxed{}`", r"{p}\sqrt{{q}}", r"So it is $\boxed{{p}\sqrt{{q}}}$."),
    expression("another form, in dollars", "(x-{p})(x+{q})", "Answer: $(x+{q})(x-{p})$"),
    expression("letters without dollars", "{p}x+{q}", "Answer: {q}+{p}x"),
    expression("a fraction without dollars", r"\frac{{p}}{{q}}", "Answer: {2p}/{2q}"),
    expression("a decimal of ten places", r"\frac{{p}}{{q}}", "Answer: {p/q}"),
    expression("a decimal of two places", r"\frac{{p}}{{q}}", "Answer: {p/q:2}", right=False),
    expression("a pair", "({p},{q})", r"Answer: $\left({p}, {q}\right)$"),
    expression("a unit", "{p}.5", r"Answer: ${p}.5\text{ cm}$"),
    expression("a word", r"\text{east}", "Answer: east"),
    expression("400 characters after it", r"\sqrt{{p}}", r"Answer: $\sqrt{{p}}$" + AFTER),
    expression("another value", r"\sqrt{{p}}", r"Answer: $\sqrt{{q}}$", right=False),
    expression(
        "the truth in the work, no answer",
        r"\frac{{p}}{{q}}",
        r"Since $\frac{{p}}{{q}}$ is no whole number, we go on.",
        right=False,
    ),
)


@dataclass
class Tally:
    """How many endings of a kind there are, and how many of them each judge of JUDGES accepts."""

    count: int = 0
    accepted: tuple[int, ...] = (0, 0)


def tally(count: int, seed: int) -> dict[Kind, Tally]:
    """Judge `count` endings, as many of each kind as of any other."""
    rng = random.Random(seed)
    found = {kind: Tally() for kind in KINDS}
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        response, truth = kind.make(rng)
        right = [compute_score(kind.data_source, response, truth, judge=judge)["acc"] > 0 for judge in JUDGES]
        one = found[kind]
        one.count += 1
        one.accepted = (one.accepted[0] + right[0], one.accepted[1] + right[1])
    return found


def table(found: dict[Kind, Tally]) -> str:
    """Markdown: each kind on which a judge disagrees with a person, then the sums over all kinds of the set."""
    lines = ["| ending | correct verdict | release | verified |", "| :-- | :-- | :-- | :-- |"]
    for title, source in (("integer sets", "math-dapo"), ("sets with expressions", "minerva-math")):
        part = {kind: one for kind, one in found.items() if kind.data_source == source}
        lines.append(f"| **{title}** | | | |")
        for kind, one in part.items():
            if one.accepted != (one.count * kind.right,) * 2:
                lines.append(_row(kind.name, kind.right, one))
        for right in (True, False):
            ones = [one for kind, one in part.items() if kind.right is right]
            accepted = tuple(sum(counts) for counts in zip(*(one.accepted for one in ones), strict=True))
            verdict = "right" if right else "wrong"
            lines.append(_row(f"*all {verdict} answers*", right, Tally(sum(one.count for one in ones), accepted)))
    return "\n".join(lines) + "\n"


def _row(name: str, right: bool, one: Tally) -> str:
    shown = [{0: "wrong", one.count: "right"}.get(n, f"right for {n} of {one.count}") for n in one.accepted]
    return f"| {name} | {'right' if right else 'wrong'} | {' | '.join(shown)} |"


def main() -> None:
    """Print the table, or put it into a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=6000, help="endings (default: 6000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, metavar="FILE", help=f"between {BEGIN.strip()} and {END.strip()}")
    args = parser.parse_args()
    text = table(tally(args.count, args.seed))
    if args.into is None:
        print(text, end="")
        return
    before, mark, rest = args.into.read_text().partition(BEGIN)
    if not mark or END not in rest:
        parser.error(f"{args.into}: no line {BEGIN.strip()} followed by {END.strip()}")
    args.into.write_text(before + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
