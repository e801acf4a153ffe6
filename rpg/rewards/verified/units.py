"""Units of answers such as `2.5 \\mathrm{~m} / \\mathrm{s}^{2}` or "12 square meters"; units.txt has the names."""

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from rpg.rewards.verified.normalize import read_table, without_text


class Unit(NamedTuple):
    """`scale` of one, in the base units of `powers`: ((base, exponent), ...), sorted."""

    scale: Fraction
    powers: tuple[tuple[str, int], ...]


PREFIXES = {"k": 3, "M": 6, "G": 9, "T": 12, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12, "f": -15}
PREFIX_NAMES = {"kilo": 3, "mega": 6, "giga": 9, "centi": -2, "milli": -3, "micro": -6, "nano": -9}
TABLE = read_table("units.txt")
SIGNS = [(re.compile(pattern), f" {word} ") for pattern, (_, word) in TABLE["signs"].items()]
FRACTION = re.compile(r"\\frac\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z]+(?:_(?:sun|earth))?)\.?"
    r"(?:\s*\^\s*(?:\{\s*(?P<braced>[+-]?[0-9])\s*\}|(?P<bare>-?[0-9])))?|"
    r"(?P<sign>/|\\cdot|\*|-|\(|\)))"
)


@lru_cache(maxsize=4096)
def read_unit(text: str) -> Unit | None:
    """Return the unit named by the whole `text`, else None; what follows "/" or "per" divides, as in J/kg K."""
    for pattern, word in SIGNS:
        text = pattern.sub(word, text)
    text = without_text(FRACTION.sub(r"\1/(\2)", text))
    tokens = list(TOKEN.finditer(text))
    if "".join(token[0] for token in tokens) != text:
        return None
    side, unit = 1, None
    for token in tokens:
        word = token["word"]
        if word == "per" or token["sign"] == "/":
            side = -1
        elif word:
            factor = named_unit(word)
            if factor is None:
                return None
            exponent = side * int(token["braced"] or token["bare"] or 1)
            powers = Counter(dict(unit.powers if unit else ()))
            powers.update({base: power * exponent for base, power in factor.powers})
            scale = (unit.scale if unit else 1) * factor.scale**exponent
            unit = Unit(scale, tuple(sorted((base, power) for base, power in powers.items() if power)))
    return unit


# name, with each prefix -> its power of ten, symbol and definition
NAMES = {
    prefix + name: (power, symbol, definition)
    for name, (symbol, definition) in TABLE["prefixed"].items()
    for prefix, power in {"": 0, **(PREFIXES if name == symbol else PREFIX_NAMES)}.items()
} | {name: (0, *entry) for name, entry in TABLE["plain"].items()}


@lru_cache(maxsize=1024)
def named_unit(word: str) -> Unit | None:
    """Return the unit of one word: a known unit, one with a prefix, or a plural noun as its own unit."""
    noun = word.lower()
    for name in (word, noun) if len(word) > 2 else (word,):
        for singular in (name, name.removesuffix("s")) if len(name) > 3 else (name,):
            if singular in NAMES:
                exponent, symbol, definition = NAMES[singular]
                scale, _, others = definition.partition(" ")
                of = read_unit(others) or Unit(Fraction(1), ((symbol, 1),))
                return Unit(Fraction(10) ** exponent * Fraction(scale or 1) * of.scale, of.powers)
    is_counted = re.fullmatch("(?!.*(?:teenth|ieth|illion|ou|s)s$)[a-z]{3,}s", noun) and noun not in TABLE["no nouns"]
    return Unit(Fraction(1), ((noun.removesuffix("s"), 1),)) if is_counted else None
