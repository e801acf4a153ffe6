"""Parts of the number line: intervals, unions, inequalities of one variable."""

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

from rpg.rewards.verified.evaluate import UNDEFINED, constant, context, is_real
from rpg.rewards.verified.formula import Unreadable
from rpg.rewards.verified.structure import (
    ABSOLUTE,
    INFINITY,
    INTERVALS,
    PARTS_OF_LINE,
    Items,
    Relation,
    Structure,
    bounded_name,
    is_name,
)

End = Fraction | float  # an end of a region; floats are infinities
SIGNS = {"<": operator.lt, "\\le": operator.le, "=": operator.eq, "\\ne": operator.ne}


class Region(NamedTuple):
    """Part of the number line: its possible ends, and its indicator function."""

    ends: tuple[End, ...]
    holds: Callable[[End], bool]


def same_region(answer: Structure, truth: Structure) -> bool | None:
    """Return whether two regions agree at every end, between neighbours and beyond, and in the variable if named.

    None if one has no region: ends with variables are compared as text.
    """
    try:
        left, right = region(answer), region(truth)
    except (Unreadable, *UNDEFINED):
        return None
    names = {bounded_name(answer), bounded_name(truth)} - {""}
    return len(names) <= 1 and all(left.holds(x) == right.holds(x) for x in _points(left.ends + right.ends))


def region(item: Structure) -> Region:
    """Return the region of a structure. Raises Unreadable if it has none; UNDEFINED if an end has no value."""
    if isinstance(item, Relation):
        return _of_relation(item)
    if not isinstance(item, Items):
        raise Unreadable("no region")
    if item.kind == "in":
        return region(item.items[1])
    if item.kind in INTERVALS.values() and len(item.items) == 2:
        low, high = map(_end, item.items)
        if high < low or (high == low and item.kind != "[]"):
            raise Unreadable("an interval that ends before it begins")  # (0, 0) is a point
        if (low == -math.inf and item.kind[0] == "[") or (high == math.inf and item.kind[1] == "]"):
            raise Unreadable("an interval with an infinite element")
        above, below = (operator.le if bracket in "[]" else operator.lt for bracket in item.kind)
        return Region((low, high), lambda x: above(low, x) and below(x, high))
    if item.kind == "{":
        numbers = tuple(map(_end, item.items))
        return Region(numbers, numbers.__contains__)
    if item.kind not in PARTS_OF_LINE:
        raise Unreadable("a list")
    parts = [region(part) for part in item.items]
    ends = tuple(end for part in parts for end in part.ends)
    if item.kind == "without":
        return Region(ends, lambda x: parts[0].holds(x) and not parts[1].holds(x))
    can_hold_all = any(all(part.holds(x) for part in parts) for x in _points(ends))
    joined = all if item.kind == "and" or (item.kind == "either" and can_hold_all) else any
    return Region(ends, lambda x: joined(part.holds(x) for part in parts))


def _of_relation(relation: Relation) -> Region:
    """Return where x < 3, 1 < x \\le 3, |x| \\ge 2, x \\ne 3 or x = 3 holds."""
    sides = [ABSOLUTE.sub(r"\1", side) for side in relation.sides]
    inside = sides != list(relation.sides)
    is_chain = len(sides) > 2 and "=" in relation.signs  # x = 6 = 7 is a contradiction, not the empty set
    if len({*filter(is_name, sides)}) != 1 or not SIGNS.keys() >= set(relation.signs) or is_chain:
        raise Unreadable("not one variable against numbers")
    numbers = [None if is_name(side) else _end(side) for side in sides]
    ends = tuple(end for end in numbers if end is not None)

    def holds(x: End) -> bool:
        x = abs(x) if inside else x
        values = [x if number is None else number for number in numbers]
        return all(SIGNS[sign](*pair) for sign, pair in zip(relation.signs, itertools.pairwise(values), strict=True))

    return Region(ends + tuple(-end for end in ends) if inside else ends, holds)


def _end(item: Structure) -> End:
    """Return the value of an end, irrational ones to 100 digits. Raises Unreadable if it is not real."""
    if not isinstance(item, str):
        raise Unreadable("no end")
    plain = item.replace(" ", "")
    if plain in (INFINITY, "-" + INFINITY):
        return math.inf if plain == INFINITY else -math.inf
    end = constant(item)
    if end is None or not is_real(end):
        raise Unreadable("an end that is not a real number")
    return end if isinstance(end, Fraction) else Fraction(int(context().nint(context().re(end) * 10**100)), 10**100)


def _points(ends: Iterable[End]) -> list[End]:
    """Return all finite ends, a number between neighbours, and one beyond each side."""
    finite = sorted({end for end in ends if isinstance(end, Fraction)}) or [Fraction(0)]
    between = [(low + high) / 2 for low, high in itertools.pairwise(finite)]
    return [finite[0] - 1, *finite, *between, finite[-1] + 1]
