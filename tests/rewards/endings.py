r"""Generated responses and truths for every part of the release's rule, seeded."""

import random
from collections.abc import Callable, Iterator


def between_bars(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


MARKS = between_bars(
    "Answer:|Answer: |answer: |ANSWER:|aNsWeR :|Answer\t:\t|Answer\n:\n|Answer:\n\n|Answer:\r\n|**Answer:** |"
    "**Answer**: |Final Answer: |preanswer: |Answers: |Answer is |Answer |Antwort: |Answer\uff1a|Answer\xa0:\xa0|"
    "Answer:\u2028|Answer:\u2003|Answer:\x1c|Answer:\x85|an\u017fwer: |Answer:: |Answer:Answer: |Answer:\nAnswer: |"
    "\\boxed{|$\\boxed{|answer=|Answer: x = |\u017fAnswer: "
)
DIGITS = between_bars("0|7|42|204|025|1,000|1,00|1{,}000|12,34|,|\uff17|\u0664\u0662|\xb2|3\xb9|\u2460")
UNITS = between_bars(
    "square|ways|integers|dollars|mph|inches|hours|km|units|\\ldots|sue|points|feet|minutes|digits|cents|degrees|cm|"
    "gm|pounds|meters|meals|edges|students|childrentickets|multiples|\\text{s}|\\text{.}|\\text{\ns}|\\text{}^2|"
    '\\text{}^3|\\text{\n}|\\text{}|\\mathrm{th}|^\\circ|^{\\circ}|\\;|,\\!|{,}|"|\\dots|\\text{m}|\\text{and}|'
    ",\\text{and}|\\mbox{m}|mbox|an |a |\\$|\\ |.$|\\mbox{ cm}|\\text{ cents}|child|tickets"
)
TEX = between_bars(
    "\\frac12|\\frac{1}{2}|\\frac1{2}|\\frac{1}2|\\frac 1 2|\\dfrac{3}{4}|frac|frac{|frac1|fracfrac12|\\sqrt2|"
    "\\sqrt{2}|\\sqrt 2|sqrt|sqrtsqrt3|\\text{x}|\\text{|\\textbf{42}|\\overline{AB}|\\boxed{7}|\\boxed{\\text{7}}|"
    "\\boxed{\\frac{1}{2}}|\\text{a}b}|\\text{\\text{7}}|\\boxed{7} or \\boxed{8}|\\boxed{7|x=|=|==|x = 1 = |$|$$|"
    "$42$|$4$ and $2$|\\$5|5.$|\\(42\\)|{|}|^|\\|-|\u2212"
)
SPACES = between_bars(" |  |\t|\r|\x0b|\x0c|\x1c|\x1f|\x85|\xa0|\u2003|\u2028|\u2029|\u200b|\ufeff|\u3000")
WORDS = between_bars("a|an|is|banana |Canada |sum|c|m|c m|k|s|East|\u7b54\u6848|\U0001d7d9|e\u0301|42.|42.0|4.2e1")
PIECES = DIGITS + UNITS + TEX + SPACES + WORDS
KINDS: dict[str, Callable[[random.Random], tuple[str, str]]] = {}


def kind(make: Callable[[random.Random], tuple[str, str]]) -> Callable[[random.Random], tuple[str, str]]:
    KINDS[make.__name__] = make
    return make


def endings(count: int, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, response, truth) in turn of kinds."""
    rng = random.Random(seed)
    for number in range(count):
        name = list(KINDS)[number % len(KINDS)]
        yield (name, *KINDS[name](rng))


def some(rng: random.Random, pieces: tuple[str, ...], most: int) -> str:
    return "".join(rng.choice(pieces) for _ in range(rng.randint(0, most)))


def dressed(rng: random.Random, number: str) -> str:
    """Return a number with one or two decorations, which the rule removes or not."""
    for _ in range(rng.randint(0, 2)):
        dress = rng.choice(
            ("${}$", "\\boxed{{{}}}", "\\text{{{}}}", "x = {}", "{} cm", "{}.", "**{}**", "${}.$", "\\$ {}")
        )
        number = dress.format(number)
    return rng.choice(("", " ", "\t")) + number + rng.choice(("", rng.choice(UNITS), rng.choice(SPACES)))


@kind
def marks(rng: random.Random) -> tuple[str, str]:
    number = str(rng.randrange(1000))
    return f"Work.\n{rng.choice(MARKS)}{dressed(rng, number)}{rng.choice(('', chr(10), '}', '}$'))}", number


@kind
def units(rng: random.Random) -> tuple[str, str]:
    number = str(rng.randrange(1000))
    said = f"{number}{rng.choice(('', ' ', '-'))}{some(rng, UNITS, 3)}"
    return f"Answer: {said}", rng.choice((number, f"{number}{rng.choice(UNITS)}", number + "cm"))


@kind
def pieces(rng: random.Random) -> tuple[str, str]:
    said = some(rng, PIECES, 8)
    return f"Answer: {said}", rng.choice((said, said.strip(), some(rng, PIECES, 3), said.replace(" ", "")))


@kind
def expressions(rng: random.Random) -> tuple[str, str]:
    said = some(rng, TEX, 4)
    return f"So\nAnswer: {said}", rng.choice((said, f"${said}$", said.replace("\\", ""), f"\\boxed{{{said}}}"))


@kind
def digits(rng: random.Random) -> tuple[str, str]:
    said = some(rng, DIGITS, 3)
    return f"Answer: {said}", rng.choice((said.replace(",", ""), said, "42", said.translate({0xFF17: "7"})))


@kind
def spaces(rng: random.Random) -> tuple[str, str]:
    number = str(rng.randrange(100))
    gap = some(rng, (*SPACES, "\n"), 3)
    return f"Answer{gap}:{some(rng, (*SPACES, chr(10)), 3)}{number}{some(rng, SPACES, 2)}", number


@kind
def repeated(rng: random.Random) -> tuple[str, str]:
    numbers = [str(rng.randrange(20)) for _ in range(rng.randint(1, 4))]
    gaps = ("\n", " ", "\n\n", " or ", ", ", "\r\n", "\u2028", "")
    response = "".join(f"{rng.choice(MARKS)}{number}{rng.choice(gaps)}" for number in numbers)
    empty = rng.choice(("", "", "Answer:", "Answer: ", "Answer:\n", "Answer: \n", "Answer:\r\n\t\n"))
    return response + empty, rng.choice((numbers[-1], numbers[0]))


@kind
def tails(rng: random.Random) -> tuple[str, str]:
    """Return responses with "Answer:" around the 300th character from the end."""
    number = str(rng.randrange(1000))
    said = f"Answer: {number}"
    padding = 300 - len(said) + rng.randint(-12, 12)
    filler = rng.choice((".", "\n", "so. ", "\u7b54", "\U0001f600", " ", "answer ", "\r"))
    after = rng.choice(("\n", "")) + filler * padding
    return "Start. " * rng.randint(0, 60) + said + after[:padding], number


@kind
def long_lines(rng: random.Random) -> tuple[str, str]:
    said = some(rng, PIECES, 120)
    return f"{some(rng, WORDS, 100)}\nAnswer: {said}", rng.choice((said, said[-40:]))


@kind
def broken_truths(rng: random.Random) -> tuple[str, str]:
    """Return truths of several lines, which an answer cannot equal."""
    truth = some(rng, (*PIECES, "\n", "\n"), 6)
    return f"Answer: {truth}", truth
