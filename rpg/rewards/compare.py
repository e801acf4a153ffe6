"""Whether two answers say the same: text, then exact numbers, then math-verify within a time limit."""

import re
from fractions import Fraction

from rpg.rewards import symbolic
from rpg.rewards.extract import MAX_ANSWER_CHARS
from rpg.rewards.normalize import as_number, normalize, split_unit

RELATIVE_TOLERANCE = Fraction(1, 10**6)  # where the truth is no integer and one side is a rounded decimal
MAX_DEPTH = 5  # the parser's time grows exponentially with nested brackets; real answers have up to 4
MAX_POWERS = 6
MAX_SLASHES = 6
MEANINGLESS_SPACE = re.compile(r"(?<![0-9])\s+|\s+(?![0-9])")
SPLIT_NUMBER = re.compile(r"[0-9] +[0-9]")  # the library would read "20 4" as 204
BASE = re.compile(r"[0-9]_")  # the library drops the base of 12_7
WORDS = re.compile(r"[A-Za-z][A-Za-z' -]{2,}")
COMMAND = re.compile(r"\\[A-Za-z]+")
PROSE = re.compile(r"[A-Za-z]{4}")  # letters in a row are words or code, no product of variables
VARIABLE = re.compile(r"[A-Za-df-hj-zA-Z]")  # letters but e and i, which are numbers
# Towers of powers and functions of functions of functions: no answers, and slow to simplify
TOWER = re.compile(r"\^\{[^{}]*\^\{?[^{}]*\^")
_CALL = r"\\(?:arc)?(?:sin|cos|tan|log|ln|exp)[^()]*\("
FUNCTION_TOWER = re.compile(rf"{_CALL}[^()]*{_CALL}[^()]*{_CALL}")
# No answer of these sets needs them, and sympy may work on them for hours
EXPENSIVE = ("\\int", "\\sum", "\\prod", "\\lim", "\\binom", "!", "\\begin{cases}")


def answers_match(answer: str, truth: str, time_limit: float, integers_only: bool = False) -> bool:
    """Whether the answer text of a response says what `truth` says.

    `time_limit` bounds the library's work in seconds of processor time. With `integers_only`, as for
    the toy task, nothing but the number itself counts and the library is never started.
    """
    if not answer or len(answer) > MAX_ANSWER_CHARS or len(truth) > MAX_ANSWER_CHARS:
        return False
    said, wanted = normalize(answer), normalize(truth)
    # "27 + 48 = 75" answers 75; "x + y = 1" may be a truth itself
    if "=" in said and "=" not in wanted and "," not in said:
        said = said.rsplit("=", 1)[1].strip()
    if not said:
        return False
    said_value, said_unit = split_unit(said)
    wanted_value, wanted_unit = split_unit(wanted)
    if said_unit and wanted_unit and said_unit != wanted_unit:
        return False
    said_number, wanted_number = as_number(said_value), as_number(wanted_value)
    if said_number is not None and wanted_number is not None:
        rounded = "." in said_value or "." in wanted_value
        return numbers_match(said_number, wanted_number, rounded)
    if integers_only:
        return False
    if compact(said_value) == compact(wanted_value):
        return True
    if not is_worth_parsing(said_value, wanted_value, wanted_number is not None):
        return False
    return symbolic.is_equal(wanted_value, said_value, time_limit)


def numbers_match(said: Fraction, wanted: Fraction, rounded: bool) -> bool:
    """Exact equality; one part in a million of leeway where a decimal stands for no integer."""
    if said == wanted:
        return True
    if wanted.denominator == 1 or not rounded:
        return False
    return abs(said - wanted) <= RELATIVE_TOLERANCE * abs(wanted)


def compact(text: str) -> str:
    """Return `text` without its spaces, but for those that part two numbers, and words in one case."""
    text = text.casefold() if WORDS.fullmatch(text) else text
    return MEANINGLESS_SPACE.sub("", text)


def is_worth_parsing(said: str, wanted: str, wanted_is_number: bool) -> bool:
    """Whether the library may find two different texts equal, at a bounded price.

    Words are not products of their letters ("east" is not "seat"), an expression with a variable is not
    a number, and what sympy may chew on for hours no answer needs.
    """
    if WORDS.fullmatch(said) or WORDS.fullmatch(wanted):
        return False
    letters = COMMAND.sub("", said)
    if PROSE.search(letters) or (wanted_is_number and VARIABLE.search(letters)):
        return False
    if SPLIT_NUMBER.search(said) or TOWER.search(said) or FUNCTION_TOWER.search(said):
        return False
    if BASE.search(said) and not BASE.search(wanted):
        return False
    if any(construct in said for construct in EXPENSIVE):
        return False
    return depth(said) <= MAX_DEPTH and said.count("^") <= MAX_POWERS and said.count("/") <= MAX_SLASHES


def depth(text: str) -> int:
    """Return how deep brackets are nested; closing ones without a partner count nothing."""
    deepest = level = 0
    for character in text:
        if character in "([{":
            level += 1
            deepest = max(deepest, level)
        elif character in ")]}" and level:
            level -= 1
    return deepest
