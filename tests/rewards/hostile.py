"""Adversarial responses: long repetitions, nesting, unicode, regex bombs, LaTeX bombs."""

import random
from collections.abc import Callable, Iterator

ALPHABETS = (
    "{}",
    "\\",
    "$",
    "()[]{}",
    "0123456789",
    "aA ",
    "^_",
    "*",
    "/",
    "\u202e\u200d\u0301",
    "\U0001f600\u4e2d\u0660\x00\ud800",
)
COMMANDS = (r"\frac", r"\sqrt", r"\boxed", r"\text", r"\left(", r"\right)", r"\begin{pmatrix}", r"\int", r"\sum")
BOMBS = (
    "9^{9^{9^{9}}}",
    "x^{x^{x^{x^{x}}}}",
    r"(x+y+z+w)^{200}",
    r"\sum_{n=1}^{1000000000} n^{99}",
    r"\binom{100000000}{50000000}",
    "100000000!",
    "1" + "/7" * 60,
    "[" * 40 + "1" + "]" * 40,
    r"\begin{pmatrix}" + r"1&2\\" * 30 + r"\end{pmatrix}",
    "0." + "9" * 180,
    "1e999",
    r"e^{e^{e^{e^{10}}}}",
)


def long_run(rng: random.Random) -> str:
    return rng.choice(ALPHABETS)[0] * 100_000


def noise(rng: random.Random) -> str:
    return "".join(rng.choices("".join(ALPHABETS) + "answerANSWER: \n", k=rng.choice((10, 100, 1000))))


def nested(rng: random.Random) -> str:
    command, levels = rng.choice(COMMANDS), rng.choice((5, 20, 1000))
    return "Answer: " + (command + "{") * levels + "1" + "}" * rng.choice((0, levels, levels + 3))


def regex_bomb(rng: random.Random) -> str:
    pieces = ("Answer:", "answer ", "Answer*", "_ ", "\t", "a", "1,", "1 ", "000,", "\\frac{", "}{", "$", "\\$", "=")
    return "Answer: " + rng.choice(pieces) * rng.choice((50, 60_000)) + rng.choice(("", "!", "\n", "x"))


def bomb(rng: random.Random) -> str:
    return "Answer: " + rng.choice(("", "-", f"{rng.randrange(10**6)}+")) + rng.choice(BOMBS)


def latex_noise(rng: random.Random) -> str:
    pieces = [*COMMANDS, "{", "}", "^", "_", "x", "2", "+", "-", ",", "=", "(", ")", r"\pi", r"\infty", r"\cup"]
    return "Answer: " + "".join(rng.choices(pieces, k=rng.choice((4, 10, 40))))


KINDS: tuple[Callable[[random.Random], str], ...] = (long_run, noise, nested, regex_bomb, bomb, latex_noise)
TRUTHS = ("204", r"\frac{3}{4}", r"2\sqrt{3}", "(1,2)", "x^2+1", r"\text{east}", "4.5e33", r"[0,1) \cup (2,3]")


def hostile_responses(count: int, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, response, truth) for all kinds and truths in turn."""
    rng = random.Random(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        yield kind.__name__, kind(rng), TRUTHS[number // len(KINDS) % len(TRUTHS)]
