"""Evaluates formulas, and compares two formulas by their values at fixed points.

Values are exact where they are rational, else known to 220 digits. Two formulas that agree at several points of no
special kind are the same function; that needs no rules of simplification and misses no identity. Exact numbers are
capped at MAX_BITS and all others at 2^MAX_EXPONENT, so that no formula of an answer's length takes long.
"""

import functools
import math
import operator
import random
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.ctx_mp import MPContext

from rpg.rewards.verified.formula import INVERTIBLE, TRIGONOMETRIC, Node, Unreadable

DIGITS = 220
MAX_BITS = 20_000  # limit of exact numbers: 2^{2023} and 100! are answers
MAX_EXPONENT = 200  # power of two, for numbers to 220 digits: sums are then correct to 10^-150
MAX_ARGUMENT = 10**6  # of a trigonometric function
TOLERANCE = mpmath.mpf(10) ** -120
LEEWAY = Fraction(1, 10**6)  # of a rounded decimal
POINTS = 12  # points at which formulas are compared
ENOUGH = 4  # points at which both have a value
Number = Any  # Fraction, or a number of mpmath
UNDEFINED = (ZeroDivisionError, ValueError)  # raised if a formula has no value: 1/0, the logarithm of zero

_local = threading.local()


def context() -> MPContext:
    """Return this thread's mpmath context: its precision is state that threads must not share."""
    if not hasattr(_local, "context"):
        _local.context = MPContext()
        _local.context.dps = DIGITS
    return _local.context


def value(node: Node, point: dict[str, Fraction]) -> Number:
    """Return the value of a formula with variables from `point`; exact if it is rational.

    Raises UNDEFINED without a value, Unreadable if it is too large to distinguish numbers.
    """
    if node.op == "num":
        return node.leaf
    if node.op == "var":
        return point[str(node.leaf)]
    if node.op in ("pi", "e", "i"):
        ctx = context()
        return {"pi": +ctx.pi, "e": +ctx.e, "i": ctx.mpc(0, 1)}[node.op]
    return _bounded(OPERATIONS[node.op](*(value(arg, point) for arg in node.args)))


@functools.lru_cache(maxsize=4096)
def variables(node: Node) -> frozenset[str]:
    """Return the names of a formula's variables."""
    leaf = frozenset([str(node.leaf)]) if node.op == "var" else frozenset()
    return leaf.union(*(variables(arg) for arg in node.args))


def is_real(number: Number) -> bool:
    """Return whether a value has no imaginary part."""
    return isinstance(number, Fraction) or abs(context().im(number)) < TOLERANCE


def are_close(a: Number, b: Number, leeway: Fraction = Fraction(0)) -> bool:
    """Return whether two values are the same number, up to the share `leeway` of the second.

    Raises Unreadable if one is too large.
    """
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return abs(a - b) <= leeway * abs(b)
    a, b = inexact(a), inexact(b)
    if leeway and abs(a - b) <= abs(b) * leeway.numerator / leeway.denominator:
        return True
    return bool(abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-30))


def are_equal(a: Node, b: Node, leeway: Fraction = Fraction(0)) -> bool:
    """Return whether two formulas have the same value at all points where both are real, else where both have one.

    `leeway` is for numbers only. Raises Unreadable if a value is too large.
    """
    if not variables(a) and not variables(b):
        try:
            return are_close(value(a, {}), value(b, {}), leeway)
        except UNDEFINED:
            return False
    real, complex_ = 0, []
    for left, right in _values_at_points(a, b):
        if not (is_real(left) and is_real(right)):
            complex_.append(are_close(left, right))
        elif not are_close(left, right):
            return False
        else:
            real += 1
    return real >= ENOUGH or (real + len(complex_) >= ENOUGH and all(complex_))


def constant_ratio(a: Node, b: Node) -> Number | None:
    """Return c if a = c b everywhere with c != 0, else None: a = 0 and b = 0 are then equivalent.

    Raises Unreadable where a value is too large.
    """
    ratios: list[Number] = []
    for left, right in _values_at_points(a, b):
        zeros = [are_close(side, Fraction(0)) for side in (left, right)]
        if any(zeros):
            if not all(zeros):
                return None
            continue
        ratio = OPERATIONS["div"](left, right)
        if ratios and not are_close(ratio, ratios[0]):
            return None
        ratios.append(ratio)
    return ratios[0] if len(ratios) >= ENOUGH else None


def _values_at_points(a: Node, b: Node) -> Iterator[tuple[Number, Number]]:
    """Yield the values of both at each point where both have one."""
    names = variables(a) | variables(b)
    for index in range(POINTS if names else 1):
        point = {name: _coordinate(name, index) for name in names}
        try:
            yield value(a, point), value(b, point)
        except UNDEFINED:
            continue


@functools.lru_cache(maxsize=16384)
def _coordinate(name: str, index: int) -> Fraction:
    """One coordinate of point `index`: positive at every other point, where roots and logarithms are real."""
    rng = random.Random(f"{name} at {index}")
    size = Fraction(rng.randrange(2, 40), rng.choice((3, 5, 7, 11, 13)))
    return size if index % 2 or rng.random() < 0.5 else -size


def _bounded(number: Number) -> Number:
    if isinstance(number, Fraction):
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
            raise Unreadable("too many digits")
    elif not mpmath.isfinite(size := abs(number)) or size > mpmath.ldexp(1, MAX_EXPONENT):
        raise Unreadable("too large")
    return number


def inexact(number: Number, largest: int = 0) -> Number:
    """Return a number of this thread's context. Raises Unreadable if it is too large, or above `largest`."""
    if isinstance(number, Fraction):
        if abs(number.numerator.bit_length() - number.denominator.bit_length()) > MAX_EXPONENT:
            raise Unreadable("too large")
        number = context().mpf(number.numerator) / number.denominator
    if largest and abs(number) > largest:
        raise Unreadable("argument too large")
    return number


def _binary(operation: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    def apply(a: Number, b: Number) -> Number:
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return operation(a, b)
        return operation(inexact(a), inexact(b))

    return apply


def _function(name: str) -> Callable[[Number], Number]:
    return lambda x: getattr(context(), name)(inexact(x, MAX_ARGUMENT))


def _exp(x: Number) -> Number:
    return context().exp(inexact(x, MAX_EXPONENT))


def _ln(x: Number) -> Number:
    if x == 0:
        raise ZeroDivisionError("log 0")
    return context().log(inexact(x))


def _log(x: Number, base: Number = Fraction(10)) -> Number:
    return OPERATIONS["div"](_ln(x), _ln(base))


def _power(base: Number, exponent: Number) -> Number:
    if base == 0:
        if isinstance(exponent, Fraction) and exponent > 0:
            return Fraction(0)
        raise ZeroDivisionError("0^0")
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        if isinstance(base, Fraction):
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(exponent) * bits > MAX_BITS:
                raise Unreadable("too many digits")
            return base ** int(exponent)
        if abs(exponent) <= MAX_EXPONENT:
            return _bounded(base) ** int(exponent)
    return _exp(exponent if base == context().e else OPERATIONS["mul"](exponent, _ln(base)))


def _root(x: Number, degree: Number) -> Number:
    if not isinstance(degree, Fraction) or degree.denominator != 1 or not 2 <= degree <= 1000:
        raise Unreadable("no degree of a root")
    if isinstance(x, Fraction) and x >= 0 and degree == 2:
        exact = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if exact * exact == x:
            return exact
    if x == 0:
        return Fraction(0)
    x = inexact(x)
    if degree % 2 and not context().im(x) and context().re(x) < 0:
        return -context().root(-x, int(degree))  # the real root, as \sqrt[3]{-8} = -2
    return context().root(x, int(degree))


def _factorial(x: Number) -> Number:
    if isinstance(x, Fraction) and x.denominator == 1:
        if x > 2000:
            raise Unreadable("too large")
        return Fraction(math.factorial(int(x)))  # ValueError below zero
    return context().gamma(inexact(x, 100) + 1)


def _binomial(n: Number, k: Number) -> Number:
    if isinstance(n, Fraction) and isinstance(k, Fraction) and n.denominator == k.denominator == 1:
        if n > 4000:
            raise Unreadable("too large")
        return Fraction(math.comb(int(n), int(k)))  # ValueError below zero
    return context().binomial(inexact(n, 100), inexact(k, 100))


def _floor(x: Number) -> Number:
    if isinstance(x, Fraction):
        return Fraction(math.floor(x))
    if not is_real(x):
        raise ValueError("floor of a complex number")
    return Fraction(int(context().floor(context().re(x) + TOLERANCE)))


OPERATIONS: dict[str, Callable[..., Number]] = {
    "add": _binary(operator.add),
    "mul": _binary(operator.mul),
    "div": _binary(operator.truediv),
    "neg": operator.neg,
    "pow": _power,
    "root": _root,
    "abs": abs,
    "floor": _floor,
    "ceil": lambda x: -_floor(-x),
    "factorial": _factorial,
    "binom": _binomial,
    "exp": _exp,
    "ln": _ln,
    "log": _log,
    **{name: _function(name) for name in TRIGONOMETRIC},
    **{"arc" + name: _function("a" + name) for name in INVERTIBLE},
}
