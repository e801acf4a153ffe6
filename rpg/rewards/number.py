"""Reads a number in plain text: 27, 27.0, 1,000, 3/4. Sums, roots and powers are for verified/formula.py."""

import re
from fractions import Fraction

INTEGER = r"(?:[0-9]{1,3}(?:(?:,[0-9]{3})+|(?: [0-9]{3})+)(?![0-9])|[0-9]+)"
DECIMAL = re.compile(rf"[+-]?(?:{INTEGER}(?:\.[0-9]*)?|\.[0-9]+)")
FRACTION = re.compile(r"([+-]?[0-9]+)/([0-9]+)|\\frac\{([0-9]+)\}\{([0-9]+)\}")


def decimal(text: str) -> Fraction:
    """Return the exact value of a text that DECIMAL matches."""
    return Fraction(text.replace(",", "").replace(" ", "").rstrip("."))


def plain_number(text: str) -> Fraction | None:
    """Return the exact value of a decimal number or a quotient of integers; None for other text, and for 1/0."""
    text = text.strip()
    if DECIMAL.fullmatch(text):
        return decimal(text)
    match = FRACTION.fullmatch(text)
    above, below = (int(match[1] or match[3]), int(match[2] or match[4])) if match else (0, 0)
    return Fraction(above, below) if below else None
