"""One spelling for answers that say the same: markup, LaTeX spacing, units, numbers.

Everything here works on at most a few hundred characters (see extract.py), so no pattern can run long.
"""

import re
from fractions import Fraction

from rpg.rewards.extract import BOXED, last_boxed

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
CHARACTERS = str.maketrans(
    {
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},  # full-width digits
        **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\uff0d", "-"),  # minus signs and dashes
        "×": "\\times ",
        "·": "\\cdot ",
        "⋅": "\\cdot ",
        "÷": "/",
        "∕": "/",
        "⁄": "/",
        "π": "\\pi ",
        "√": "\\sqrt ",
        "∞": "\\infty ",
        "≤": "\\le ",
        "≥": "\\ge ",
        "±": "\\pm ",
        "∪": "\\cup ",
        "°": "^\\circ",
        "½": "\\frac{1}{2}",
        "⅓": "\\frac{1}{3}",
        "⅔": "\\frac{2}{3}",
        "¼": "\\frac{1}{4}",
        "¾": "\\frac{3}{4}",
        "\uff0c": ",",  # full-width punctuation
        "\u3001": ",",
        "\uff08": "(",
        "\uff09": ")",
        "\u3002": ".",
        "\uff1d": "=",
        "\u00a0": " ",
        "\u200b": "",
    }
)
REPLACEMENTS = (
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("\\cfrac", "\\frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("\\quad", " "),
    ("\\qquad", " "),
    ("~", " "),
    ("{,}", ","),
    ("\\leq", "\\le"),
    ("\\geq", "\\ge"),
    ("\\text{ and }", ","),
    ("\\text{ or }", ","),
    ("\\text{and}", ","),
    ("\\text{or}", ","),
    (" and ", ","),
    (" or ", ","),
)
WRAPPERS = ("text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mbox", "boldsymbol", "fbox")
WRAPPED = re.compile(r"\\(?:" + "|".join(WRAPPERS) + r")\s*\{([^{}]*)\}")
NO_SPACE = re.compile(r"(?<!\\)\\[!,]")  # but not the end of a line break
SPACE = re.compile(r"(?<!\\)\\[;: ]")
MATH_SPAN = re.compile(r"(?<!\\)\$([^$]+)(?<!\\)\$")
# "x = ", "f(x) = ", at the start or after a comma: "x = 1, x = 2" answers "1, 2"
ASSIGNMENT = re.compile(r"(^|,\s*)[A-Za-z](?:_\{?\w+\}?|')?(?:\([A-Za-z]\))?\s*=\s*(?=[^=\s])")
SHORT_FRACTION = re.compile(r"\\frac\s*(?:\{([^{}]*)\}|([0-9a-zA-Z]))\s*(?:\{([^{}]*)\}|([0-9a-zA-Z]))")
PLAIN_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)")
PLAIN_COMMAND = re.compile(r"(?<![\\A-Za-z{])(pi|sin|cos|tan|ln|log|infinity)(?![A-Za-z])")
SHORT_ROOT = re.compile(r"\\sqrt\s*([0-9a-zA-Z])")

UNITS = {
    word: words.split()[0]
    for words in (
        "cm centimeter centimeters centimetre centimetres",
        "mm millimeter millimeters millimetre millimetres",
        "km kilometer kilometers kilometre kilometres",
        "meter meters metre metres",
        "inch inches",
        "ft foot feet",
        "mile miles",
        "mph",
        "kg kilogram kilograms",
        "gram grams",
        "lb lbs pound pounds",
        "second seconds sec",
        "minute minutes min",
        "hour hours hr hrs",
        "day days",
        "year years",
        "dollar dollars usd",
        "cent cents",
        "degree degrees deg",
        "percent",
        "unit units",
        "way ways",
        "point points",
        "people person persons",
        "student students",
        "liter liters litre litres",
    )
    for word in words.split()
}
UNIT_WORDS = re.compile(r"(?<=[0-9}) ])\s*(?:square |cubic |sq )?([A-Za-z]{2,12})(?:\^\{?[23]\}?)?\.?$")
UNIT_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textrm)\s*\{([^{}]*)\}(?:\^\{?[23]\}?)?$")
UNIT_SIGN = re.compile(r"(?:\^\s*\{?\\circ\}?|\\degree|\\?%)$")

INTEGER = r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)"
DECIMAL = rf"(?:{INTEGER}(?:\.[0-9]*)?|[+-]?\.[0-9]+)"
TIMES = r"\s*(?:\\times|\\cdot|\*|x)\s*"
EXPONENT = r"(?:\{\s*([+-]?[0-9]{1,3})\s*\}|\(([+-]?[0-9]{1,3})\)|([+-]?[0-9]{1,3}))"
PLAIN = re.compile(DECIMAL)
SLASHED = re.compile(rf"\(?\s*({DECIMAL})\s*/\s*({DECIMAL})\s*\)?")
FRACTION = re.compile(rf"([+-]?)\s*\\frac\{{\s*({DECIMAL})\s*\}}\{{\s*({DECIMAL})\s*\}}")
MIXED = re.compile(r"([+-]?)([0-9]{1,9})\s*\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}")
MIXED_SLASHED = re.compile(r"([+-]?)([0-9]{1,9}) +([0-9]{1,9})/([0-9]{1,9})")
POWER = re.compile(rf"([+-]?)\(?([0-9]{{1,6}})\)?\s*(?:\^|\*\*)\s*{EXPONENT}")
SCIENTIFIC = re.compile(rf"({DECIMAL}){TIMES}10\s*(?:\^|\*\*)\s*{EXPONENT}")
E_NOTATION = re.compile(rf"({DECIMAL})[eE]([+-]?[0-9]{{1,3}})")


def normalize(text: str) -> str:
    """Return `text` without markup, delimiters, LaTeX spacing and end punctuation."""
    text = raise_superscripts(text).translate(CHARACTERS)
    text = select_math(text)
    text = SPACE.sub(" ", NO_SPACE.sub("", text))
    for before, after in REPLACEMENTS:
        text = text.replace(before, after)
    text = strip_delimiters(text)
    text = SHORT_FRACTION.sub(_full_fraction, text)
    text = SHORT_ROOT.sub(r"\\sqrt{\1}", text)
    text = PLAIN_ROOT.sub(r"\\sqrt{\1}", text)
    text = PLAIN_COMMAND.sub(_as_command, text)
    text = ASSIGNMENT.sub(r"\1", text)
    return " ".join(text.split())


def raise_superscripts(text: str) -> str:
    """Write unicode superscripts as LaTeX exponents: 10² becomes 10^{2}."""
    return re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda run: "^{" + run.group().translate(SUPERSCRIPTS) + "}", text)


def select_math(text: str) -> str:
    """Return the \\boxed{} content or the only $...$ of a sentence, else the text as it is.

    "Answer: the value is $12$" answers 12; digits outside the dollars leave the sentence whole.
    """
    if text.count(BOXED) == 1:
        return last_boxed(text) or text
    spans = MATH_SPAN.findall(text)
    if len(spans) == 1 and not re.search(r"[0-9\\]", MATH_SPAN.sub("", text)):
        return spans[0]
    return text


def strip_delimiters(text: str) -> str:
    """Strip emphasis, math delimiters, currency signs, text wrappers and punctuation, outside in."""
    previous = None
    while text != previous:
        previous = text
        text = text.strip(" \t\r\n*`\"'").removesuffix("\\").strip()
        text = text.rstrip(".,;:")
        text = text.removeprefix("\\$").strip("$").removeprefix("€").removeprefix("£")
        for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
            if text.startswith(opening) and text.endswith(closing):
                text = text[2:-2]
        wrapped = WRAPPED.fullmatch(text)
        if wrapped:
            text = wrapped.group(1)
        if re.fullmatch(r"\([A-Z]\)", text):  # a choice letter
            text = text[1]
    return text


def split_unit(text: str) -> tuple[str, str]:
    """Split a normalized answer into (value, unit), unit "" where it has none."""
    for pattern in (UNIT_TEXT, UNIT_WORDS):
        match = pattern.search(text)
        value = text[: match.start()].strip() if match else ""
        if match and value:
            word = match.group(1).strip().lower().rstrip(".")
            if pattern is UNIT_TEXT or word in UNITS:
                return value, UNITS.get(word, word)
    match = UNIT_SIGN.search(text)
    value = text[: match.start()].strip() if match else ""
    if match and as_number(value) is not None:
        return value, "percent" if match.group().endswith("%") else "degree"
    return text, ""


def as_number(text: str) -> Fraction | None:
    """Return the exact value of a number written in any of the common ways, else None.

    Integers with thousands separators, decimals, a/b, \\frac{a}{b}, mixed numbers, b^e and a x 10^e.
    """
    text = text.strip()
    if PLAIN.fullmatch(text):
        return _decimal(text)
    if match := SLASHED.fullmatch(text):
        return _ratio(_decimal(match[1]), _decimal(match[2]))
    if match := FRACTION.fullmatch(text):
        value = _ratio(_decimal(match[2]), _decimal(match[3]))
        return -value if value is not None and match[1] == "-" else value
    if match := MIXED.fullmatch(text) or MIXED_SLASHED.fullmatch(text):
        part = _ratio(Fraction(match[3]), Fraction(match[4]))
        if part is None:
            return None
        return (-1 if match[1] == "-" else 1) * (int(match[2]) + part)
    if match := SCIENTIFIC.fullmatch(text):
        return _decimal(match[1]) * Fraction(10) ** _exponent(match.groups()[1:])
    if match := E_NOTATION.fullmatch(text):
        return _decimal(match[1]) * Fraction(10) ** int(match[2])
    if match := POWER.fullmatch(text):
        base, exponent = int(match[2]), _exponent(match.groups()[2:])
        if base == 0 and exponent <= 0:
            return None
        return (-1 if match[1] == "-" else 1) * Fraction(base) ** exponent
    return None


def _as_command(match: re.Match[str]) -> str:
    return "\\infty " if match[1] == "infinity" else f"\\{match[1]} "


def _full_fraction(match: re.Match[str]) -> str:
    above, below = (match[1] or match[2] or ""), (match[3] or match[4] or "")
    return f"\\frac{{{above}}}{{{below}}}"


def _decimal(text: str) -> Fraction:
    plain = text.replace(",", "").replace(" ", "")
    return Fraction(plain.rstrip(".") if plain.endswith(".") else plain)


def _ratio(above: Fraction, below: Fraction) -> Fraction | None:
    return above / below if below else None


def _exponent(groups: tuple[str | None, ...]) -> int:
    return int(next(group for group in groups if group))
