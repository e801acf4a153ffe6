"""Evaluates formulas: exactly where rational, else to 220 digits; equal at several points is equal.

Exact numbers are capped at MAX_BITS and all others at 2^MAX_EXPONENT, so that no formula of an answer takes long.
"""

import contextlib
import functools
import itertools
import math
import operator
import random
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.ctx_mp import MPContext

from rpg.rewards.verified.formula import COUNTERS, TRIGONOMETRIC, Node, Unreadable, read_formula

DIGITS = 220
MAX_BITS = 20_000  # limit of exact numbers: 2^{2023} and 100! are answers
MAX_EXPONENT = 200  # power of two, for numbers to 220 digits: sums are then correct to 10^-150
MAX_ARGUMENT = 10**6  # of a trigonometric function
TOLERANCE = mpmath.mpf(10) ** -120
POINTS = 14  # points at which formulas are compared
SMALL = 38  # integers below it, to compare floors at: squares, powers of two and their neighbours
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
    """Return the value of a formula at `point`. Raises UNDEFINED without one, Unreadable if it is too large."""
    if node.op == "num":
        return node.leaf
    if node.op == "var":
        return point[str(node.leaf)]
    if node.op in ("pi", "e", "i"):
        ctx = context()
        return {"pi": +ctx.pi, "e": +ctx.e, "i": ctx.mpc(0, 1)}[node.op]
    return _bounded(OPERATIONS[node.op](*(value(arg, point) for arg in node.args)))


def constant(text: str) -> Number | None:
    """Return the value of a formula without variables, else None."""
    node = read_formula(text)
    with contextlib.suppress(Unreadable, *UNDEFINED):
        return None if node is None or variables(node) else value(node, {})


def nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    yield node
    for arg in node.args:
        yield from nodes(arg)


@functools.lru_cache(maxsize=4096)
def variables(node: Node) -> frozenset[str]:
    """Return the names of a formula's variables."""
    return frozenset(str(part.leaf) for part in nodes(node) if part.op == "var")


def substituted(node: Node, name: str, new: Node) -> Node:
    """Return a formula with another in the place of a variable."""
    if node.op == "var":
        return new if node.leaf == name else node
    return node._replace(args=tuple(substituted(arg, name, new) for arg in node.args))


def is_real(number: Number) -> bool:
    """Return whether a value has no imaginary part."""
    return isinstance(number, Fraction) or abs(context().im(number)) < TOLERANCE


def are_close(a: Number, b: Number, leeway: Fraction = Fraction(0)) -> bool:
    """Return whether two values agree, up to the share `leeway` of the second. Raises Unreadable if too large."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return abs(a - b) <= leeway * abs(b)
    a, b = inexact(a), inexact(b)
    share = abs(b) * leeway.numerator / leeway.denominator
    return bool(abs(a - b) <= max(share, TOLERANCE * max(abs(a), abs(b), 1e-30)))


def are_equal(a: Node, b: Node, leeway: Fraction = Fraction(0)) -> bool:
    """Return whether two formulas agree wherever both are real, else wherever both have a value."""
    is_number = not variables(a) | variables(b)
    reals, others = 0, list[bool]()
    for x, y in _values_at_points(a, b):
        is_close = are_close(x, y, leeway if is_number else Fraction(0))
        if is_real(x) != is_real(y) and any(node.op in ("abs", "i") for node in (*nodes(a), *nodes(b))):
            return False  # \ln|x| is not \ln x, and i x not 0
        if not (is_real(x) and is_real(y)):
            others.append(is_close)
        elif not is_close:
            return False
        else:
            reals += 1
    return reals >= ENOUGH or (reals + len(others) >= (1 if is_number else ENOUGH) and all(others))


def constant_ratio(a: Node, b: Node) -> Number | None:
    """Return c if a = c b everywhere with c != 0, else None: a = 0 and b = 0 are then equivalent."""
    ratios = (OPERATIONS["div"](*pair) for pair in _values_at_points(a, b) if not are_close(pair[1], Fraction(0)))
    ratio = next(ratios, Fraction(0))
    is_formula = bool(variables(a) | variables(b)) and not are_close(ratio, Fraction(0))
    return ratio if is_formula and are_equal(a, Node("mul", (Node("num", leaf=ratio), b))) else None


def _values_at_points(a: Node, b: Node) -> Iterator[tuple[Number, Number]]:
    """Yield the values of both at each point where both have one, either exact or not."""
    for point in _points(a, b):
        with contextlib.suppress(Unreadable, *UNDEFINED):
            yield _exactly(lambda *pair: pair)(value(a, point), value(b, point))


def _points(a: Node, b: Node) -> Iterator[dict[str, Fraction]]:
    """Yield the points at which to compare formulas: if they have floors, all small integers and their own numbers."""
    names, parts = variables(a) | variables(b), [*nodes(a), *nodes(b)]
    floors = [node for node in parts if node.op in ("floor", "ceil") and variables(node)]
    if not floors:
        is_power = any(node.op == "pow" and node.args[0].op == "neg" and variables(node.args[1]) for node in parts)
        far = max(1000, math.prod(sorted(_sizes(parts))[-2:]) + 1)  # beyond the corners of |x - 100| and |x/3 - 100|
        for index in range(POINTS if names else 1):
            yield {name: _coordinate(name, index, is_power and name in COUNTERS, far) for name in names}
        return
    # no formula needs the floor of an integer: the m of \\lceil m \\rceil is a real number
    is_counted = all(any(part.op in ("div", "root", "log") for part in nodes(floor)) for floor in floors)
    numbers = {0, *_sizes(parts)}
    integers = sorted({*range(SMALL), *numbers, *sorted(abs(x - y) for x in numbers for y in numbers)[: 2 * SMALL]})
    rows = zip(*(random.Random(name).sample(integers, len(integers)) for name in names), strict=True)
    divisors = itertools.cycle((6, 97))  # of real variables: at halves and thirds, and between the jumps of 60 x
    for row, divisor in zip(rows, divisors, strict=False):
        point = dict(zip(names, map(Fraction, row), strict=True))
        yield point
        if not is_counted or names - COUNTERS:
            yield {name: x if is_counted and name in COUNTERS else (x - 30) / divisor for name, x in point.items()}


def _sizes(parts: list[Node]) -> Iterator[int]:
    """Yield the sizes of the constants of formulas and of their inverses, where floors may jump."""
    for part in parts:
        if part.op in ("num", "mul", "pow") and not variables(part):
            with contextlib.suppress(Unreadable, *UNDEFINED):
                if isinstance(size := value(part, {}), Fraction) and size:
                    yield from (math.floor(abs(size)), math.floor(1 / abs(size)))


@functools.lru_cache(maxsize=16384)
def _coordinate(name: str, index: int, is_integer: bool, far: int) -> Fraction:
    """One coordinate of point `index`: positive at every other point, where roots and logarithms are real."""
    rng = random.Random(f"{name} at {index}")
    if index >= POINTS - 2:
        return Fraction(rng.randrange(far, 2 * far) * (1 if index % 2 else -1))
    size = Fraction(rng.randrange(2, 40), 1 if is_integer else rng.choice((3, 5, 7, 11, 13)))
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


def _exactly(operation: Callable[..., Number]) -> Callable[..., Number]:
    """Return an operation on fractions, or on numbers of mpmath if one of its arguments is."""

    def apply(*numbers: Number) -> Number:
        is_exact = all(isinstance(x, Fraction) for x in numbers)
        return operation(*(numbers if is_exact else map(inexact, numbers)))

    return apply


def _function(name: str, largest: int = MAX_ARGUMENT) -> Callable[..., Number]:
    return lambda *numbers: getattr(context(), name)(*(inexact(x, largest) for x in numbers))


def _power(base: Number, exponent: Number) -> Number:
    if base == 0:
        if isinstance(exponent, Fraction) and exponent > 0:
            return Fraction(0)
        raise ZeroDivisionError("0^0")
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        if isinstance(base, Fraction):
            if abs(exponent) * max(base.numerator.bit_length(), base.denominator.bit_length()) > MAX_BITS:
                raise Unreadable("too many digits")
            return base ** int(exponent)
        if abs(exponent) <= MAX_EXPONENT:
            return _bounded(base) ** int(exponent)
    exponent = exponent if base == context().e else OPERATIONS["mul"](exponent, OPERATIONS["ln"](base))
    return context().exp(inexact(exponent, MAX_EXPONENT))


def _root(x: Number, degree: Number) -> Number:
    if not isinstance(degree, Fraction) or degree.denominator != 1 or not 2 <= degree <= 1000:
        return _power(x, OPERATIONS["div"](Fraction(1), degree))
    if isinstance(x, Fraction) and x >= 0 and degree == 2:
        exact = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if exact * exact == x:
            return exact
    x = inexact(x)
    if degree % 2 and not context().im(x) and context().re(x) < 0:
        return -context().root(-x, int(degree))  # the real root, as \sqrt[3]{-8} = -2
    return context().root(x, int(degree))


def _counted(exact: Callable[..., int], name: str, largest: int) -> Callable[..., Number]:
    def apply(*numbers: Number) -> Number:
        if any(not isinstance(x, Fraction) or x.denominator != 1 for x in numbers):
            return _function(name, 100)(*numbers)
        if numbers[0] > largest:
            raise Unreadable("too large")
        return Fraction(exact(*map(int, numbers)))  # ValueError below zero

    return apply


def _floor(x: Number) -> Number:
    if isinstance(x, Fraction):
        return Fraction(math.floor(x))
    if not is_real(x):
        raise ValueError("floor of a complex number")
    return Fraction(int(context().floor(context().re(x) + TOLERANCE)))


OPERATIONS: dict[str, Callable[..., Number]] = {
    **{name: _exactly(getattr(operator, name)) for name in ("add", "mul", "neg")},
    "div": _exactly(operator.truediv),
    "pow": _power,
    "root": _root,
    "abs": abs,
    "floor": _floor,
    "ceil": lambda x: -_floor(-x),
    "factorial": _counted(math.factorial, "factorial", 2050),
    "fac2": _counted(lambda n: math.prod(range(n, 0, -2)), "fac2", 2050),
    "binom": _counted(math.comb, "binomial", 4000),
    "ln": _function("ln", 0),
    "log": lambda x, base: OPERATIONS["div"](OPERATIONS["ln"](x), OPERATIONS["ln"](base)),
    "exp": lambda x: _power(context().e, x),
    "cis": _function("expj"),
    **{name: _function(name) for name in TRIGONOMETRIC},
    **{"arc" + name: _function("a" + name) for name in TRIGONOMETRIC},
}
