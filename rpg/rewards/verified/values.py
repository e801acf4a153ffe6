"""Compares two values: numbers, formulas, quantities with units, ratios, based numbers, words."""

import re
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rpg.rewards.verified.evaluate import are_equal, constant
from rpg.rewards.verified.formula import DEGREE, INTEGER, ONE, Node, number, read_formula
from rpg.rewards.verified.normalize import TABLES, TEXT, without_text
from rpg.rewards.verified.units import Unit, read_unit

MEANINGLESS_SPACE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])|(?<=[0-9])\s+(?=[A-Za-z])")
NEEDLESS_BRACES = re.compile(r"(?<=[_^])\{(\w|\\[A-Za-z]+)\}")
WORDS = re.compile(r"[^\W\d_][^\W\d_' .-]*(?:[' .-]+[^\W\d_]+)*")
THREE_LETTERS = re.compile(r"[^\W\d_]{3}")  # a-b-c is a formula
PRODUCT = re.compile(r"(?!(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)$)[A-Za-z]{3}")  # mgR
HALF_OF_DAY = r"\s*[ap]\.?\s?m\.?"
DATE_OR_CLOCK = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}|"
    rf"(?:[01]?[0-9]|2[0-4]):[0-5][0-9](?::[0-5][0-9])?(?:{HALF_OF_DAY})?|(?:1[0-2]|[1-9]){HALF_OF_DAY}",
    re.IGNORECASE,
)
CLOCK = re.compile("[0-9]+:[0-9]+")
CODE = re.compile("[IVXLC]{2}|[NESW]{2}|[HT]{2}|[TF]{2}|[LR]{2}")  # IV is no product, VI
ROUNDED = re.compile(rf"-?(?=[0.]*[1-9](?:[., ]?[0-9]){{2}}){INTEGER}\.([0-9]{{2,}})")  # two places, three digits
RATIO = re.compile(r":|(?<=[0-9])(?:\s+|\s*\\text\{\s*)to(?:\s+|\s*\}\s*)(?=[0-9])")
DECIMAL_POINT = re.compile(r"\.[0-9\\(]")  # also of 0.\bar{3}
CURRENCY = re.compile(r"([+-]?)\s*(\\\$|USD|EUR|€|£|¥)\s*")
UNIT_START = re.compile(r"\s*(?:[\\%°'(]|/(?=(?: |\\text|\{)*(?:[a-z]{3}|hr))|(?<![A-Za-z\\])[A-Za-z])")  # in no word
PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([^0-9]*[^0-9\s-])\s*")
NO_VALUE_ENDS = ("\\", "+", "-", "\\cdot", "/", "^", "_", "{", "(", "=")
LETTERS = re.compile(r"[A-Za-z]|mg|(?:mg|[A-Za-z])(?: +[A-Za-z])+")  # m g h is a product
UNITS_OF_LETTERS = ("mg", "N m", "J s", "A s", "A h", "W h", "W s", "V s", "V A", "T m")
ARTICLE = re.compile(r"(?:the|an?) (?=[a-z]{2})")
ANGLE, RADIAN = read_unit("degree"), read_unit("rad")
PERCENT = read_unit("percent")
PRIMES = (read_unit("arcmin"), read_unit("arcsec"))
FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")  # the angle of \sin 30^\circ is not the answer
SYNONYMS = [(re.compile(pattern), meaning) for pattern, (_, meaning) in TABLES["whole answers"].items()]


@lru_cache(maxsize=16384)
def as_number(text: str) -> Fraction | None:
    """Return the exact value of a rational number or formula without variables; None for other text."""
    exact = constant(text.strip())
    return exact if isinstance(exact, Fraction) else None


class Quantity(NamedTuple):
    """The text of a value, and its unit."""

    value: str
    unit: Unit | None = None


def compact(text: str) -> str:
    """Return `text` without meaningless spaces, and with words in one case."""
    return words(text) or MEANINGLESS_SPACE.sub("", NEEDLESS_BRACES.sub(r"\1", without_text(text)))


def words(text: str) -> str:
    """Return words, a date or a time of day in one spelling, else "": one letter is a variable."""
    plain = " ".join(TEXT.sub(r"\1", text).split())
    if DATE_OR_CLOCK.fullmatch(plain):
        plain = plain.lower().replace(".", "").replace(" ", "")
        return plain.replace(":00am", "am").replace(":00pm", "pm").lstrip("0")
    has_word = THREE_LETTERS.search(plain) and not PRODUCT.fullmatch(plain)
    if not WORDS.fullmatch(plain) or not (has_word or plain.casefold() == "no"):
        return ""
    plain = ARTICLE.sub("", plain.casefold().replace(".", "").replace("-", " "))
    return next((meaning for pattern, meaning in SYNONYMS if pattern.fullmatch(plain)), plain)


@lru_cache(maxsize=16384)
def same_value(answer: str, truth: str) -> bool:
    """Return whether two texts without structure mean the same."""
    if compact(answer) == compact(truth):
        return True
    plain = words(answer) + words(truth)
    if plain and not (THREE_LETTERS.fullmatch(plain) or CLOCK.fullmatch(plain)):  # abc may be a b c, 1:12 a ratio
        return False
    if all(CODE.fullmatch(TEXT.sub(r"\1", text)) for text in (answer, truth)):
        return False
    if RATIO.search(answer) or RATIO.search(truth):
        return _same_ratio(answer, truth)
    return same_number(answer, truth) or _same_quantity(quantity(answer), quantity(truth))  # "3 m" may be a product


def _same_quantity(answer: Quantity, truth: Quantity) -> bool:
    """Return whether value and unit agree, or that of the other side is assumed: 30 degrees are 30 and \\pi/6."""
    units = {answer.unit, truth.unit}
    if ANGLE in units and units < {ANGLE, RADIAN, None} and (RADIAN in units or "\\pi" in answer.value + truth.value):
        return same_number(answer.value, truth.value, DEGREE if answer.unit == ANGLE else Node("div", (ONE, DEGREE)))
    if answer.unit and truth.unit:
        scale = answer.unit.scale / truth.unit.scale
        return answer.unit.powers == truth.unit.powers and same_number(answer.value, truth.value, number(scale))
    if PERCENT in units:
        if same_number(answer.value, truth.value, number(Fraction(1, 100) if answer.unit else 100)):
            return True
        size = as_number(answer.value)
        if size is not None and (abs(size) < 1 or (answer.unit and size == 1)):
            return False  # 0.5 is 50%, but not 0.5%
    return same_number(answer.value, truth.value)


def same_number(answer: str, truth: str, scale: Node = ONE) -> bool:
    """Return whether `scale` times the number or formula `answer` equals `truth`; README.md states the leeways."""
    trees = read_formula(answer), read_formula(truth)
    if not trees[0] or not trees[1]:
        return False
    right, share = as_number(truth), Fraction(0)
    if right is not None and right.denominator != 1:
        decimals = [bool(DECIMAL_POINT.search(text)) for text in (answer, truth)]
        share = Fraction(decimals[0] != decimals[1] or scale != ONE, 10**6)
        if not decimals[0] and (match := ROUNDED.fullmatch(truth)):  # half a unit of its last place
            share = max(share, Fraction(1, 2 * 10 ** len(match[1])) / abs(right))
    return are_equal(Node("mul", (trees[0], scale)), trees[1], share)


def _same_ratio(answer: str, truth: str) -> bool:
    """Return whether two ratios have as many parts, in proportion, or one has two and the other is their quotient."""
    parts = RATIO.split(answer), RATIO.split(truth)
    left, right = ([rf"\frac{{{first}}}{{{part}}}" for part in others] or [first] for first, *others in parts)
    return len(left) == len(right) and all(map(same_number, left, right))


@lru_cache(maxsize=16384)
def quantity(text: str) -> Quantity:
    """Split a value and its unit, the longest end that is one; a letter only after a number and a space, or upright."""
    currency = CURRENCY.match(text)
    sign, money, text = (currency[1], currency[2], text[currency.end() :]) if currency else ("", "", text)
    if sum_of_units := total(text):
        return sum_of_units
    for position in range(1, len(text)):
        if not UNIT_START.match(text, position):
            continue
        value, ending = text[:position].rstrip(), text[position:]
        unit = None if value.endswith(NO_VALUE_ENDS) else read_unit(ending)
        if unit is None or (unit == ANGLE and FUNCTION.search(value)):
            continue
        letters = ending.strip()
        is_unit = ending[0] == " " if len(letters) == 1 else letters in UNITS_OF_LETTERS
        if LETTERS.fullmatch(letters) and not (is_unit and as_number(value) is not None):
            continue
        if unit in PRIMES and as_number(value) is None:  # f'
            continue
        if money and unit != read_unit(money):  # $5 per hour
            unit = read_unit(money + ending)
        return Quantity(sign + value, unit)
    return Quantity(sign + text, read_unit(money))


def total(text: str) -> Quantity | None:
    """Return 2 hours 30 minutes as 5/2 hours; None unless there are several units of one kind that decrease."""
    if len(found := PART.findall(text)) < 2 or PART.sub("", text):
        return None
    units = [unit for _, name in found if (unit := read_unit(name))]
    if len(units) < len(found) or any(a.powers != b.powers or a.scale <= b.scale for a, b in pairwise(units)):
        return None
    size = sum(Fraction(count) * unit.scale for (count, _), unit in zip(found, units, strict=True))
    return Quantity(str(size / units[0].scale), units[0])
