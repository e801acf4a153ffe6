"""Whether two formulas are equal: their values, exact or to 220 digits, at points fixed beforehand.

Two formulas that agree at several points of no special kind are the same function; that needs no rules of
simplification, misses no identity, and its price is bounded.
"""

import random
from fractions import Fraction
from functools import lru_cache

from rpg.rewards.evaluate import TOLERANCE, Number, Undefined, context, divide, inexact, value
from rpg.rewards.grammar import Node

LEEWAY = Fraction(1, 10**6)  # of a decimal that stands for a number that is no integer
POINTS = 12
ENOUGH = 4


@lru_cache(maxsize=4096)
def variables(node: Node) -> frozenset[str]:
    """Return the names of a formula's variables, and of its unknown functions."""
    own = frozenset([str(node.leaf)]) if node.op in ("var", "call") else frozenset()
    return own.union(*(variables(arg) for arg in node.args))


@lru_cache(maxsize=16384)
def _coordinate(name: str, index: int) -> Fraction:
    """One coordinate of point `index`: positive at every other point, where roots and logarithms are real."""
    rng = random.Random(f"{name} at {index}")
    size = Fraction(rng.randrange(2, 40), rng.choice((3, 5, 7, 11, 13)))
    return size if index % 2 or rng.random() < 0.5 else -size


def points(*nodes: Node) -> list[dict[str, Fraction]]:
    """Return the points at which these formulas are compared; one where nothing varies."""
    names = frozenset().union(*(variables(node) for node in nodes))
    return [{name: _coordinate(name, index) for name in names} for index in range(POINTS if names else 1)]


def is_real(number: Number) -> bool:
    """Whether a value has no imaginary part."""
    return isinstance(number, Fraction) or abs(context().im(number)) < TOLERANCE


def are_close(a: Number, b: Number, leeway: bool = False) -> bool:
    """Whether two values are the same number; with `leeway` to one part in a million of the second."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b or (leeway and abs(a - b) <= LEEWAY * abs(b))
    a, b = inexact(a), inexact(b)
    if leeway and abs(a - b) <= abs(b) / LEEWAY.denominator:
        return True
    return bool(abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-30))


def are_near(a: Number, b: Number) -> bool:
    """Whether a rounded value may stand for an exact one: one part in a hundred. Raises Unreadable if too large."""
    a, b = inexact(a), inexact(b)
    return bool(100 * abs(a - b) <= abs(b))


def are_equal(a: Node, b: Node, leeway: bool = False) -> bool:
    """Whether two formulas have the same value wherever both have a real one, else wherever they have one.

    `leeway` is for numbers only. Raises Unreadable where a value is too large.
    """
    if not variables(a) and not variables(b):
        try:
            return are_close(value(a, {}), value(b, {}), leeway)
        except Undefined:
            return False
    real, complex_ = 0, []
    for point in points(a, b):
        try:
            left, right = value(a, point), value(b, point)
        except Undefined:
            continue
        if not (is_real(left) and is_real(right)):
            complex_.append(are_close(left, right))
        elif not are_close(left, right):
            return False
        else:
            real += 1
    return real >= ENOUGH or (real + len(complex_) >= ENOUGH and all(complex_))


def constant_ratio(a: Node, b: Node) -> Number | None:
    """Return c where a = c b everywhere with c other than zero, else None: a = 0 and b = 0 say the same.

    Raises Unreadable where a value is too large.
    """
    ratios: list[Number] = []
    for point in points(a, b):
        try:
            left, right = value(a, point), value(b, point)
        except Undefined:
            continue
        if are_close(left, Fraction(0)) or are_close(right, Fraction(0)):
            if not (are_close(left, Fraction(0)) and are_close(right, Fraction(0))):
                return None
            continue
        ratio = divide(left, right)
        if ratios and not are_close(ratio, ratios[0]):
            return None
        ratios.append(ratio)
    return ratios[0] if len(ratios) >= ENOUGH else None
