"""Decimal numbers in plain text: 27, 27.0, 1,000. Sums, roots and powers are for formula.py."""

import re
from fractions import Fraction

INTEGER = r"(?:[0-9]{1,3}(?:(?:,[0-9]{3})+|(?: [0-9]{3})+)(?![0-9])|[0-9]+)"
DECIMAL = re.compile(rf"[+-]?(?:{INTEGER}(?:\.[0-9]*)?|\.[0-9]+)")


def decimal(text: str) -> Fraction:
    """Return the exact value of a text that DECIMAL matches."""
    return Fraction(text.replace(",", "").replace(" ", "").rstrip("."))
