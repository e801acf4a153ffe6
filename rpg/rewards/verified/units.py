"""Units of answers such as `2.5 \\mathrm{~m} / \\mathrm{s}^{2}` or "12 square meters".

A unit is a scale and the powers of base units, so that 100 cm is 1 m, and cm^3 is not cm^2. units.txt is also
the allow-list: Pint has a thousand names that can be variables, and costs 0.6 s and 32 MB per worker.
"""

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from rpg.rewards.verified.normalize import read_table


class Unit(NamedTuple):
    """`scale` of one, in the base units of `powers`: ((base, exponent), ...), sorted."""

    scale: Fraction
    powers: tuple[tuple[str, int], ...]


PREFIXES = {"k": 3, "M": 6, "G": 9, "T": 12, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12, "f": -15}
PREFIX_NAMES = {"kilo": 3, "mega": 6, "giga": 9, "centi": -2, "milli": -3, "micro": -6, "nano": -9}
# words ending in s that are not counted things: "33 plus", "33 is", "33 thousands"
NO_NOUNS = """plus minus less this does thus always perhaps unless besides across thousands hundreds millions billions
tens dozens halves thirds quarters fifths sixths sevenths eighths ninths tenths hundredths thousandths others guesses
elevenths twelfths sixteenths twentieths trillions lakhs crores factorials fails"""
NOUN_LEADS = "distinct different possible total positive real ordered such whole prime unique"
AREAS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
AFTER = {"squared": 2, "cubed": 3}
DEFINED = re.compile(r"(?:(?P<scale>[0-9][0-9./e-]*) )?(?P<unit>.+)")
# LaTeX names, replaced by words before tokenising
CIRC = r"\^\s*\{?\s*\\circ\s*\}?"
NAMED = [
    (re.compile(pattern), f" {word} ")
    for pattern, word in (
        (rf"{CIRC}\s*(?:\\text\{{\s*C\s*\}}|C)(?![A-Za-z])|[Dd]egrees?\s+[Cc]elsius", "celsius"),
        (rf"{CIRC}\s*(?:\\text\{{\s*F\s*\}}|F)(?![A-Za-z])|[Dd]egrees?\s+[Ff]ahr\w+", "fahrenheit"),
        (CIRC, "degree"),
        (r"\^\s*\{?\s*(?:\\prime\s*\\prime|'')\s*\}?|''", "arcsec"),
        (r"\^\s*\{?\s*(?:\\prime|')\s*\}?|'", "arcmin"),
        (r"(?:\\text\{)?([MLR])\}?_\s*\{?\s*(?:\\text\{)?(?:\\odot|[sS]un)\s*\}?\s*\}?", r"\1_sun"),
        (r"(?:\\text\{)?([MR])\}?_\s*\{?\s*\\(?:oplus|text\{Earth\})\s*\}?", r"\1_earth"),
        (r"(?:\\text\{\s*)?\\mu\s*\}?\s*(?:\\text\{\s*)?([mgsJWVACFLN])(?![A-Za-z])\}?", r"u\1"),
        (r"\\(?:text\{\\)?AA\}?|\\text\{\\AA\s*\}", "angstrom"),
        (r"([kM]?)(?:\\text\{\s*)?\\Omega\s*\}?", r"\1ohm"),
        (r"\\?%", "percent"),
        (r"[Ss]olar mass(?:es)?", "M_sun"),
        (r"[Ss]olar luminosit(?:y|ies)", "L_sun"),
        (r"[Ss]olar radi(?:us|i)", "R_sun"),
        (r"[Ll]ight[- ]years?", "lightyear"),
    )
]
TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z]+(?:_(?:sun|earth))?)\.?|\^\s*(?:\{\s*(?P<braced>[+-]?[0-9])\s*\}|(?P<bare>-?[0-9]))|"
    r"(?P<sign>/|\\cdot|\*|-|\(|\))|(?P<number>[0-9]))"
)


def name_latex(text: str) -> str:
    """Replace LaTeX's unit signs by words, and unwrap \\text."""
    for pattern, word in NAMED:
        text = pattern.sub(word, text)
    text = re.sub(r"\\frac\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1/(\2)", text)
    return re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)


@lru_cache(maxsize=4096)
def read_unit(text: str) -> Unit | None:
    """Return the unit named by the whole `text`, else None."""
    text = name_latex(text).strip()
    position, tokens = 0, []
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            return None
        tokens.append(match)
        position = match.end()
    return _product(tokens) if tokens else None


def _product(tokens: list[re.Match[str]]) -> Unit | None:
    """Multiply the factors; all factors after "/" or "per" divide, as in J/kg K."""
    factors: list[tuple[Unit, int]] = []
    side, area, may_be_raised, described = 1, 1, False, False
    for token in tokens:
        word = token["word"]
        exponent = AFTER.get(word) or token["braced"] or token["bare"]
        if word == "per" or token["sign"] == "/":
            side, may_be_raised = -1, False
        elif word in AREAS:
            area = AREAS[word]
        elif word in NOUN_LEADS.split():
            described = True
        elif exponent:
            if not may_be_raised:
                return None
            factors[-1] = (factors[-1][0], factors[-1][1] * int(exponent))
            may_be_raised = False
        elif word:
            unit = named_unit(word)
            if unit is None or (described and len(word) < 4):
                return None
            factors.append((unit, side * area))
            area, may_be_raised = 1, True
        elif token["number"] or (token["sign"] in "()" and side > 0):
            return None
    if area != 1 or not any(token["word"] for token in tokens):
        return None
    scale, powers = Fraction(1), Counter[str]()
    for unit, exponent in factors:
        scale *= unit.scale**exponent
        for base, power in unit.powers:
            powers[base] += power * exponent
    return Unit(scale, tuple(sorted((base, power) for base, power in powers.items() if power)))


def _names() -> dict[str, tuple[int, str, str]]:
    """Return every name of units.txt with each prefix: power of ten, symbol, definition."""
    table = read_table("units.txt")
    names = {}
    for name, (symbol, definition) in table["prefixed"].items():
        for prefix, power in {"": 0, **(PREFIXES if name == symbol else PREFIX_NAMES)}.items():
            names.setdefault(prefix + name, (power, symbol, definition))
    return {**names, **{name: (0, *entry) for name, entry in table["plain"].items()}}


NAMES = _names()


@lru_cache(maxsize=1024)
def named_unit(word: str) -> Unit | None:
    """Return the unit of one word: a known unit, one with a prefix, or a plural noun as its own unit."""
    for name in dict.fromkeys((word, word.lower() if len(word) > 3 else word)):
        for singular in dict.fromkeys((name, name.removesuffix("s") if len(name) > 3 else name)):
            if unit := _known(singular):
                return unit
    noun = word.lower()
    if len(noun) > 3 and noun.isalpha() and noun.endswith("s") and noun not in NO_NOUNS.split():
        return Unit(Fraction(1), ((noun.removesuffix("s"), 1),))
    return None


def _known(name: str) -> Unit | None:
    """Return the unit of this name in units.txt, else None."""
    if name not in NAMES:
        return None
    exponent, symbol, definition = NAMES[name]
    match = DEFINED.fullmatch(definition)
    of = read_unit(match["unit"]) if match else Unit(Fraction(1), ((symbol, 1),))
    assert of is not None
    return Unit(Fraction(10) ** exponent * Fraction(match["scale"] or 1 if match else 1) * of.scale, of.powers)
