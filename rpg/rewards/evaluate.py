"""Values of formulas: exact where they are rational, else to 220 digits, at a price that is bounded.

No exact number is let grow past MAX_BITS and no other past 2^MAX_EXPONENT, so that no formula of an answer's
length takes long.
"""

import math
import random
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.ctx_mp import MPContext

from rpg.rewards.grammar import INVERTIBLE, TRIGONOMETRIC, Node, Unreadable

DIGITS = 220
MAX_BITS = 20_000  # of exact numbers: 2^{2023} and 100! are answers
MAX_EXPONENT = 200  # of two, for numbers to 220 digits: sums then stay right to 10^-150
TOLERANCE = mpmath.mpf(10) ** -120
Number = Any  # Fraction, or a number of mpmath

_local = threading.local()


class Undefined(ArithmeticError):
    """No value at this point: a division by zero, the logarithm of zero."""


def context() -> MPContext:
    """Return this thread's mpmath context: its precision is state that threads must not share."""
    if not hasattr(_local, "context"):
        _local.context = MPContext()
        _local.context.dps = DIGITS
    return _local.context


def value(node: Node, point: dict[str, Fraction]) -> Number:
    """Return the value of a formula, its variables taken from `point`; exact where it is rational.

    Raises Undefined where there is none, Unreadable where it is too large to tell numbers apart.
    """
    if node.op == "num":
        return node.leaf
    if node.op == "var":
        return point[str(node.leaf)]
    if node.op in ("pi", "e", "i"):
        ctx = context()
        return {"pi": +ctx.pi, "e": +ctx.e, "i": ctx.mpc(0, 1)}[node.op]
    args = [value(arg, point) for arg in node.args]
    if node.op == "call":
        return _opaque(str(node.leaf), args)
    try:
        return _bounded(OPERATIONS[node.op](*args))
    except (ZeroDivisionError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Undefined(node.op) from error


def _bounded(number: Number) -> Number:
    if isinstance(number, Fraction):
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
            raise Unreadable("too many digits")
        return number
    size = abs(number)
    if not mpmath.isfinite(size) or size > mpmath.ldexp(1, MAX_EXPONENT):
        raise Unreadable("too large")
    return number


def inexact(number: Number) -> Number:
    """Return a number of this thread's context."""
    if not isinstance(number, Fraction):
        return number
    ctx = context()
    if abs(number.numerator.bit_length() - number.denominator.bit_length()) > MAX_EXPONENT:
        raise Unreadable("too large")
    return ctx.mpf(number.numerator) / number.denominator


def _binary(operation: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    def apply(a: Number, b: Number) -> Number:
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return operation(a, b)
        return operation(inexact(a), inexact(b))

    return apply


add = _binary(lambda a, b: a + b)
multiply = _binary(lambda a, b: a * b)
divide = _binary(lambda a, b: a / b)


def _function(name: str) -> Callable[[Number], Number]:
    def apply(x: Number) -> Number:
        x = inexact(x)
        if abs(x) > 10**6:
            raise Unreadable("argument too large")
        return getattr(context(), name)(x)

    return apply


def _exp(x: Number) -> Number:
    x = inexact(x)
    if abs(x) > MAX_EXPONENT:
        raise Unreadable("too large")
    return context().exp(x)


def _log(x: Number, base: Number = Fraction(10)) -> Number:
    return divide(_ln(x), _ln(base))


def _ln(x: Number) -> Number:
    if x == 0:
        raise Undefined("log 0")
    return context().log(inexact(x))


def _power(base: Number, exponent: Number) -> Number:
    if base == 0:
        if isinstance(exponent, Fraction) and exponent > 0:
            return Fraction(0)
        raise Undefined("0^0")
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        if isinstance(base, Fraction):
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(exponent) * bits > MAX_BITS:
                raise Unreadable("too many digits")
            return base ** int(exponent)
        if abs(exponent) <= MAX_EXPONENT:
            return _bounded(base) ** int(exponent)
    if base == context().e:
        return _exp(exponent)
    return _exp(multiply(exponent, _ln(base)))


def _root(x: Number, degree: Number) -> Number:
    if not isinstance(degree, Fraction) or degree.denominator != 1 or not 2 <= degree <= 1000:
        raise Unreadable("a root that is none")
    if x == 0:
        return Fraction(0)
    if isinstance(x, Fraction) and x > 0 and degree == 2:
        above, below = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if above * above == x.numerator and below * below == x.denominator:
            return Fraction(above, below)
    x = inexact(x)
    if degree % 2 and not context().im(x) and context().re(x) < 0:
        return -context().root(-x, int(degree))  # the real root, as \sqrt[3]{-8} = -2
    return context().root(x, int(degree))


def _factorial(x: Number) -> Number:
    if isinstance(x, Fraction) and x.denominator == 1:
        if x < 0:
            raise Undefined("factorial")
        if x > 2000:
            raise Unreadable("too large")
        return Fraction(math.factorial(int(x)))
    x = inexact(x)
    if abs(x) > 100:
        raise Unreadable("too large")
    return context().gamma(x + 1)


def _binomial(n: Number, k: Number) -> Number:
    if isinstance(n, Fraction) and isinstance(k, Fraction) and n.denominator == k.denominator == 1:
        if not 0 <= n <= 4000:
            raise Undefined("binomial")
        return Fraction(math.comb(int(n), int(k))) if k >= 0 else Fraction(0)
    return divide(_factorial(n), multiply(_factorial(k), _factorial(add(n, -k))))


def _absolute(x: Number) -> Number:
    return abs(x)


def _rounding(step: Callable[[Fraction], int], name: str) -> Callable[[Number], Number]:
    def apply(x: Number) -> Number:
        if isinstance(x, Fraction):
            return Fraction(step(x))
        x = context().chop(x, tol=TOLERANCE)
        if context().im(x):
            raise Undefined(name)
        nearest = context().nint(x)
        whole = nearest if abs(x - nearest) < TOLERANCE else getattr(context(), name)(x)
        return Fraction(int(whole))

    return apply


def _opaque(name: str, args: list[Number]) -> Number:
    """A value for f(x): some function that no identity holds for, fixed by its name."""
    ctx, rng = context(), random.Random(name)
    total = ctx.mpf(rng.random())
    for arg in args:
        arg = inexact(arg)
        if abs(arg) > 10**6:
            raise Unreadable("argument too large")
        total += ctx.cos(arg * ctx.mpf(rng.uniform(0.5, 1.5)) + ctx.mpf(rng.random()) + total)
    return total


OPERATIONS: dict[str, Callable[..., Number]] = {
    "add": add,
    "mul": multiply,
    "div": divide,
    "neg": lambda a: -a,
    "pow": _power,
    "root": _root,
    "abs": _absolute,
    "floor": _rounding(math.floor, "floor"),
    "ceil": _rounding(math.ceil, "ceil"),
    "factorial": _factorial,
    "binom": _binomial,
    "exp": _exp,
    "ln": _ln,
    "log": _log,
    **{name: _function(name) for name in TRIGONOMETRIC},
    **{"arc" + name: _function("a" + name) for name in INVERTIBLE},
}
