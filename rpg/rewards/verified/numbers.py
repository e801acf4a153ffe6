"""Numbers in the common spellings, read exactly. A spelling is at most a few hundred characters (extract.py)."""

import re
from fractions import Fraction

INTEGER = r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)"
DECIMAL = rf"(?:{INTEGER}(?:\.[0-9]*)?|[+-]?\.[0-9]+)"
SIGN = r"(?P<sign>[+-]?)"
EXPONENT = r"(?P<open>[{(])?\s*(?P<exponent>[+-]?[0-9]{1,3})\s*(?(open)[})])"
FRACTION = rf"(?P<above>{DECIMAL})\s*/\s*(?P<below>{DECIMAL})"
PROPER = r"(?P<above>[0-9]{1,9})\}\{(?P<below>[0-9]{1,9})"
BARRED = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)\.(?P<fixed>[0-9]*)"
    r"(?:\\(?:overline|bar|dot)\s*\{\s*(?P<block>[0-9]+)\s*\}|\((?P<bracketed>[0-9]+)\))"
)
DOTTED = re.compile(rf"{SIGN}(?P<whole>[0-9]*)\.(?P<digits>[0-9]+)\s*(?:\\ldots|\.\.\.+)")
REPEATED = re.compile(r"([0-9]*?)(?:([0-9])\2{2,}|([0-9]{2,})\3+)")  # 1666, 142857142857
BASES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
BASED = re.compile(
    r"\(?([0-9A-Fa-f]+)\)?\s*(?:_\s*\{?\s*\(?\s*|\s\(?(?:in )?base )(?:\\text\{)?"
    rf"([0-9]{{1,2}}|{'|'.join(BASES)})\}}?\)?\s*\}}?\)?"
)


def as_number(text: str) -> Fraction | None:
    """Return the exact value of a number in any of SPELLINGS, or of a repeating decimal, else None."""
    text = text.strip()
    for pattern, read in SPELLINGS:
        if match := pattern.fullmatch(text):
            try:
                return read(match)
            except ZeroDivisionError:
                return None
    return _repeating(text)


def as_based(text: str) -> tuple[str, int] | None:
    """Return (digits, base) of 2516_8, 2516_{8}, (2516)_8 or "2516 base 8", else None."""
    match = BASED.fullmatch(text)
    if not match:
        return None
    base = BASES.index(match[2]) + 2 if match[2] in BASES else int(match[2])
    return match[1].upper().lstrip("0"), base


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", "").replace(" ", "").rstrip("."))


def _signed(match: re.Match[str], value: Fraction) -> Fraction:
    return -value if match["sign"] == "-" else value


def _fraction(match: re.Match[str]) -> Fraction:
    return _decimal(match["above"]) / _decimal(match["below"])


def _mixed(match: re.Match[str]) -> Fraction | None:
    part = _fraction(match)
    return _signed(match, int(match["whole"]) + part) if part < 1 else None  # 2\frac{3}{2} is a product, or a slip


def _scientific(match: re.Match[str]) -> Fraction:
    return _decimal(match["mantissa"]) * Fraction(10) ** int(match["exponent"])


def _power(match: re.Match[str]) -> Fraction | None:
    base, exponent = int(match["base"]), int(match["exponent"])
    return _signed(match, Fraction(base) ** exponent) if base or exponent else None


def _repeating(text: str) -> Fraction | None:
    """Return the value of 0.1\\overline{6}, or of 0.1666..., whose digits must show the block that repeats."""
    if match := BARRED.fullmatch(text):
        fixed, block = match["fixed"], match["block"] or match["bracketed"]
    elif (match := DOTTED.fullmatch(text)) and (digits := REPEATED.fullmatch(match["digits"])):
        fixed, block = digits[1], digits[2] or digits[3]
    else:
        return None
    repeated = Fraction(int(block), 10 ** len(block) - 1)
    return _signed(match, int(match["whole"] or "0") + (int(fixed or "0") + repeated) / 10 ** len(fixed))


SPELLINGS = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (DECIMAL, lambda match: _decimal(match[0])),
        (rf"{FRACTION}", _fraction),
        (rf"\(\s*{FRACTION}\s*\)", _fraction),
        (
            rf"{SIGN}\s*\\frac\{{\s*(?P<above>{DECIMAL})\s*\}}\{{\s*(?P<below>{DECIMAL})\s*\}}",
            lambda match: _signed(match, _fraction(match)),
        ),
        (rf"{SIGN}(?P<whole>[0-9]{{1,9}})\s*\\frac\{{{PROPER}\}}", _mixed),
        (rf"{SIGN}(?P<whole>[0-9]{{1,9}}) +(?P<above>[0-9]{{1,9}})/(?P<below>[0-9]{{1,9}})", _mixed),
        (rf"(?P<mantissa>{DECIMAL})\s*(?:\\cdot|\*|x)\s*10\s*(?:\^|\*\*)\s*{EXPONENT}", _scientific),
        (rf"(?P<mantissa>{DECIMAL})[eE](?P<exponent>[+-]?[0-9]{{1,3}})", _scientific),
        (rf"{SIGN}(?P<base>[0-9]{{1,6}})\s*(?:\^|\*\*)\s*{EXPONENT}", _power),
    )
)
