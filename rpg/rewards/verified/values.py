"""Compares two values: numbers, formulas, quantities with units, ratios, based numbers, words."""

import re
from fractions import Fraction
from functools import lru_cache
from operator import mul
from typing import NamedTuple

from rpg.rewards.verified.formula import as_number
from rpg.rewards.verified.units import Unit, read_unit

MEANINGLESS_SPACE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])|(?<=[0-9])\s+(?=[A-Za-z])")
WORDS = re.compile(r"[^\W\d_][^\W\d_' .-]*(?:[' .-]+[^\W\d_]+)*")
THREE_LETTERS = re.compile(r"[^\W\d_]{3}")  # a-b-c is a formula
TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
MONTH = re.compile(
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\b",
    re.IGNORECASE,
)
HALF_OF_DAY = r"\s*[ap]\.?\s?m\.?"
DATE_OR_CLOCK = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}|"
    rf"(?:[01]?[0-9]|2[0-4]):[0-5][0-9](?::[0-5][0-9])?(?:{HALF_OF_DAY})?|(?:1[0-2]|[1-9]){HALF_OF_DAY}",
    re.IGNORECASE,
)
RATIO = re.compile(r":|(?<=[0-9])\s+to\s+(?=[0-9])")
DECIMAL_POINT = re.compile(r"[0-9]*\.[0-9]")
CURRENCIES = {"\\$": "dollar", "USD": "dollar", "€": "euro", "£": "sterling", "¥": "yen", "EUR": "euro"}
CURRENCY = re.compile(r"([+-]?)\s*(\\\$|USD|EUR|€|£|¥)\s*")
# possible starts of the unit in "12 \\text{cm}": text, a separate word, a sign
UNIT_START = re.compile(
    r"\s*(?:\\text\s*\{|\\(?:mu|Omega|AA)(?![A-Za-z])|\\?%|\^\s*\{?\s*(?:\\circ|\\prime|')|'|\\frac\s*\{\s*\\text|"
    r"[MLR]_\s*\{?\s*\\(?:odot|oplus)|\\cdot\s*\\text|\((?=\\text)|(?<![A-Za-z\\])[A-Za-z])"
)
BASES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
BASED = re.compile(
    r"\(?([0-9A-Fa-f]+)\)?\s*(?:_\s*\{?\s*\(?\s*|\s\(?(?:in )?base )(?:\\text\{)?"
    rf"([0-9]{{1,2}}|{'|'.join(BASES)})\}}?\)?\s*\}}?\)?"
)
NO_VALUE_ENDS = ("\\", "+", "-", "\\cdot", "/", "^", "_", "{", "(", "=")
LONE_LETTER = re.compile(r"[A-Za-z]")
NEXT_QUANTITY = re.compile(r"(?<=[A-Za-z'}])\s+(?=[0-9])")
ARTICLE = re.compile(r"(?:the|an?) (?=[a-z]{2})")
ANGLE = read_unit("degree")
PERCENT = read_unit("percent")
PRIMES = (read_unit("arcmin"), read_unit("arcsec"))
FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")  # the angle of \sin 30^\circ is not the answer
SYNONYMS = {
    **dict.fromkeys(("limit does not exist", "dne", "doesn't exist", "no limit"), "does not exist"),
    **dict.fromkeys(
        ("infinite", "infinitely many solutions", "infinite solutions", "infinite number of solutions"),
        "infinitely many",
    ),
}


class Quantity(NamedTuple):
    """The text of a value, and its unit."""

    value: str
    unit: Unit | None = None


def compact(text: str) -> str:
    """Return `text` without meaningless spaces, and with words in one case."""
    return words(text) or MEANINGLESS_SPACE.sub("", text)


def words(text: str) -> str:
    """Return words, a date or a time of day in one spelling, else "": one letter is a variable."""
    plain = " ".join(TEXT.sub(r"\1", text).split())
    if DATE_OR_CLOCK.fullmatch(plain):
        plain = plain.lower().replace(".", "").replace(" ", "")
        return plain.replace(":00am", "am").replace(":00pm", "pm").lstrip("0")
    if MONTH.search(plain) and re.search("[0-9]", plain):
        parts = re.findall(r"[a-z]+|[0-9]+", re.sub(r"(?<=[0-9])(?:st|nd|rd|th)\b", "", plain.lower()))
        return " ".join(sorted(part[:3] if part.isalpha() else part for part in parts))
    if not WORDS.fullmatch(plain) or not (THREE_LETTERS.search(plain) or plain.casefold() == "no"):
        return ""
    plain = ARTICLE.sub("", plain.casefold().replace(".", "").replace("-", " "))
    return SYNONYMS.get(plain, plain)


@lru_cache(maxsize=16384)
def same_value(answer: str, truth: str) -> bool:
    """Return whether two texts without structure mean the same."""
    if compact(answer) == compact(truth):
        return True
    if words(answer) or words(truth):
        return False
    if RATIO.search(answer) or RATIO.search(truth):
        return _same_ratio(answer, truth)
    if as_based(answer) or as_based(truth):
        return as_based(answer) == as_based(truth)
    measured = quantity(answer), quantity(truth)
    units = [value.unit for value in measured if value.unit]
    a_product = len(units) < 2 and ANGLE not in units and PERCENT not in units  # "3 m" may be a product
    if a_product and same_number(answer.removeprefix("+"), truth.removeprefix("+")):
        return True
    return bool(units) and _same_quantity(*measured)


def _same_quantity(answer: Quantity, truth: Quantity) -> bool:
    """Return whether value and unit agree; a unit on one side only is assumed for the other."""
    if answer.unit is None or truth.unit is None:
        number = as_number(answer.value)
        if PERCENT in (answer.unit, truth.unit) and number is not None and abs(number) < 1:
            return False  # 0.5 is 50%, but not 0.5%
        if ANGLE in (answer.unit, truth.unit) and "\\pi" in answer.value + truth.value:
            return False  # one is in degrees, the other in radians
        return same_number(answer.value, truth.value)
    if answer.unit.powers != truth.unit.powers:
        return False
    return same_number(answer.value, truth.value, answer.unit.scale / truth.unit.scale)


def same_number(answer: str, truth: str, scale: Fraction = Fraction(1)) -> bool:
    """Return whether `scale` times the number or formula `answer` equals `truth`.

    Equality is exact, except for one part in a million between a decimal and a fraction or formula, or a number
    converted between units. A decimal never equals an irrational number: 3.14159 is not \\pi.
    """
    answer_number, truth_number = as_number(answer), as_number(truth)
    one_is_decimal = bool(DECIMAL_POINT.search(answer)) != bool(DECIMAL_POINT.search(truth))
    is_rounded = one_is_decimal or scale.denominator > 10**6
    if answer_number is not None and truth_number is not None:
        return numbers_match(answer_number * scale, truth_number, is_rounded)
    if not any(map(str.isalnum, answer)) or answer == truth == "":
        return False
    # imports mpmath, which integer sets do not need
    from rpg.rewards.verified.evaluate import LEEWAY, are_equal
    from rpg.rewards.verified.formula import Node, Unreadable, number, read_formula

    try:
        left, right = read_formula(answer), read_formula(truth)
        if scale != 1:
            left = Node("mul", (left, number(scale)))
        may_be_rounded = is_rounded and truth_number is not None and truth_number.denominator != 1
        return are_equal(left, right, LEEWAY if may_be_rounded else Fraction(0))
    except Unreadable:
        return False


def numbers_match(answer: Fraction, truth: Fraction, is_rounded: bool) -> bool:
    """Return exact equality; one part in a million is allowed if one is rounded and neither an integer."""
    if answer == truth:
        return True
    return is_rounded and answer.denominator != 1 != truth.denominator and abs(answer - truth) <= abs(truth) / 10**6


def _same_ratio(answer: str, truth: str) -> bool:
    """Return whether two ratios have the same number of parts, in proportion; a ratio is not a number."""
    left, right = RATIO.split(answer), RATIO.split(truth)
    if len(left) != len(right) or len(left) < 2:
        return False
    a, b = [[as_number(part) for part in parts] for parts in (left, right)]
    if None in a or None in b:
        return all(same_number(a.strip(), b.strip()) for a, b in zip(left, right, strict=True))
    return all(a[n] * b[0] == a[0] * b[n] for n in range(len(a))) and a[0] != 0 != b[0]  # type: ignore[operator]


def as_based(text: str) -> tuple[str, int] | None:
    """Return (digits, base) of 2516_8, 2516_{8}, (2516)_8 or "2516 base 8", else None."""
    match = BASED.fullmatch(text)
    if not match:
        return None
    base = BASES.index(match[2]) + 2 if match[2] in BASES else int(match[2])
    if any(int(digit, 16) >= base for digit in match[1]):
        return None  # a_2
    return match[1].upper().lstrip("0"), base


@lru_cache(maxsize=16384)
def quantity(text: str) -> Quantity:
    """Split a normalized value into number and unit, or return None without a unit.

    The unit is the longest end that can be read as one; a single letter only after a number and a space, or upright.
    """
    if match := CURRENCY.match(text):
        unit = read_unit(CURRENCIES[match[2]])
        rest = text[match.end() :]
        named = quantity(rest)
        if named.unit is not None and named.unit != unit:  # $5 per hour
            unit = read_unit(f"{CURRENCIES[match[2]]} {rest[len(named.value) :]}")
        return Quantity(match[1] + named.value, unit)
    parts = NEXT_QUANTITY.split(text)
    if len(parts) > 1 and (total := _total(parts)):
        return total
    for position in range(1, len(text)):
        if not UNIT_START.match(text, position) or text[position - 1].isspace():
            continue
        value, ending = text[:position].rstrip(), text[position:]
        unit = None if value.endswith(NO_VALUE_ENDS) else read_unit(ending)
        if unit is None or (unit == ANGLE and FUNCTION.search(value)):
            continue
        if LONE_LETTER.fullmatch(ending.strip()) and (ending[0] != " " or as_number(value) is None):
            continue
        if unit in PRIMES and as_number(value) is None:  # f'
            continue
        return Quantity(value, unit)
    return Quantity(text)


def _total(parts: list[str]) -> Quantity | None:
    """Add quantities such as 2 hours 30 minutes, each of a smaller unit, in that of the first."""
    quantities = [quantity(part) for part in parts]
    first = quantities[0].unit
    amounts = [number for part in quantities if (number := as_number(part.value)) is not None and number >= 0]
    scales = [part.unit.scale for part in quantities if part.unit and first and part.unit.powers == first.powers]
    if not len(amounts) == len(scales) == len(parts) or scales != sorted({*scales}, reverse=True):
        return None
    return Quantity(str(sum(map(mul, amounts, scales), Fraction(0)) / scales[0]), first)
