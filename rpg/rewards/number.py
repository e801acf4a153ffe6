"""Numbers of the common spellings, read exactly.

Everything here works on at most a few hundred characters (see extract.py), so no pattern can run long.
"""

import re
from fractions import Fraction

INTEGER = r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)"
DECIMAL = rf"(?:{INTEGER}(?:\.[0-9]*)?|[+-]?\.[0-9]+)"
TIMES = r"\s*(?:\\cdot|\*|x)\s*"
EXPONENT = r"(?:\{\s*([+-]?[0-9]{1,3})\s*\}|\(([+-]?[0-9]{1,3})\)|([+-]?[0-9]{1,3}))"
PLAIN = re.compile(DECIMAL)
SLASHED = re.compile(rf"\(?\s*({DECIMAL})\s*/\s*({DECIMAL})\s*\)?")
FRACTION = re.compile(rf"([+-]?)\s*\\frac\{{\s*({DECIMAL})\s*\}}\{{\s*({DECIMAL})\s*\}}")
MIXED = re.compile(r"([+-]?)([0-9]{1,9})\s*\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}")
MIXED_SLASHED = re.compile(r"([+-]?)([0-9]{1,9}) +([0-9]{1,9})/([0-9]{1,9})")
POWER = re.compile(rf"([+-]?)([0-9]{{1,6}})\s*(?:\^|\*\*)\s*{EXPONENT}")
SCIENTIFIC = re.compile(rf"({DECIMAL}){TIMES}10\s*(?:\^|\*\*)\s*{EXPONENT}")
E_NOTATION = re.compile(rf"({DECIMAL})[eE]([+-]?[0-9]{{1,3}})")
BARRED = re.compile(r"([+-]?)([0-9]*)\.([0-9]*)(?:\\(?:overline|bar|dot)\s*\{\s*([0-9]+)\s*\}|\(([0-9]+)\))")
DOTTED = re.compile(r"([+-]?)([0-9]*)\.([0-9]+)\s*(?:\\ldots|\.\.\.+)")
REPEATED = re.compile(r"([0-9]*?)(?:([0-9])\2{2,}|([0-9]{2,})\3+)")  # 1666, 142857142857
BASES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
BASED = re.compile(
    r"\(?([0-9A-Fa-f]+)\)?\s*(?:_\s*\{?\s*\(?\s*|\s\(?(?:in )?base )(?:\\text\{)?"
    rf"([0-9]{{1,2}}|{'|'.join(BASES)})\}}?\)?\s*\}}?\)?"
)


def as_number(text: str) -> Fraction | None:
    """Return the exact value of a number written in any of the common ways, else None.

    Integers with thousands separators, decimals, repeating ones too, a/b, \\frac{a}{b}, mixed numbers,
    b^e and a x 10^e.
    """
    text = text.strip()
    if PLAIN.fullmatch(text):
        return _decimal(text)
    if match := SLASHED.fullmatch(text):
        return _ratio(_decimal(match[1]), _decimal(match[2])) if _paired(text) else None
    if match := FRACTION.fullmatch(text):
        value = _ratio(_decimal(match[2]), _decimal(match[3]))
        return -value if value is not None and match[1] == "-" else value
    if match := MIXED.fullmatch(text) or MIXED_SLASHED.fullmatch(text):
        part = _ratio(Fraction(match[3]), Fraction(match[4]))
        if part is None or part >= 1:  # 2\frac{3}{2} is a product, or a slip
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
    return repeating(text)


def repeating(text: str) -> Fraction | None:
    """Return the value of 0.1\\overline{6}, or of 0.1666..., whose digits must show what repeats."""
    if match := BARRED.fullmatch(text):
        sign, whole, fixed, block = *match.groups()[:3], match[4] or match[5]
    elif (match := DOTTED.fullmatch(text)) and (digits := REPEATED.fullmatch(match[3])):
        sign, whole, fixed, block = match[1], match[2], digits[1], digits[2] or digits[3]
    else:
        return None
    scale = 10 ** len(fixed)
    value = int(whole or "0") + Fraction(int(fixed or "0"), scale)
    value += Fraction(int(block), (10 ** len(block) - 1) * scale)
    return -value if sign == "-" else value


def as_based(text: str) -> tuple[str, int] | None:
    """Return (digits, base) of 2516_8, 2516_{8}, (2516)_8 or "2516 base 8", else None."""
    match = BASED.fullmatch(text)
    if not match:
        return None
    base = BASES.index(match[2]) + 2 if match[2] in BASES else int(match[2])
    return match[1].upper().lstrip("0"), base


def _paired(text: str) -> bool:
    return text.startswith("(") == text.endswith(")")


def _decimal(text: str) -> Fraction:
    plain = text.replace(",", "").replace(" ", "")
    return Fraction(plain.rstrip(".") if plain.endswith(".") else plain)


def _ratio(above: Fraction, below: Fraction) -> Fraction | None:
    return above / below if below else None


def _exponent(groups: tuple[str | None, ...]) -> int:
    return int(next(group for group in groups if group))
