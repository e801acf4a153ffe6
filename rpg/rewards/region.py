"""Regions of the number line: whether two unions of intervals hold the same numbers, whatever their spelling."""

from typing import Any, NamedTuple

from rpg.rewards.evaluate import Undefined, context, value
from rpg.rewards.grammar import Unreadable
from rpg.rewards.identity import are_close, is_real, variables
from rpg.rewards.kinds import INFINITY, Items, Region, Structure, as_region
from rpg.rewards.value import as_node, same_value


class Span(NamedTuple):
    """An interval with its ends worked out."""

    low: Any
    with_low: bool
    high: Any
    with_high: bool


def same_region(said: Structure, wanted: Structure) -> bool:
    """Whether two structures are the same region, of the same variable where both name one."""
    names = {name for item in (said, wanted) for name in _names(item)}
    if len(names) > 1:
        return False
    try:
        left, right = spans(said), spans(wanted)
    except (Unreadable, Undefined):
        return _same_spelling(as_region(said), as_region(wanted))
    return len(left) == len(right) and all(
        (one.with_low, one.with_high) == (other.with_low, other.with_high)
        and _equal(one.low, other.low)
        and _equal(one.high, other.high)
        for one, other in zip(left, right, strict=True)
    )


def _names(item: Structure) -> list[str]:
    if isinstance(item, Items):
        return [name for part in item.items for name in _names(part)]
    return [item.name] if isinstance(item, Region) and item.name else []


def _same_spelling(said: Region | None, wanted: Region | None) -> bool:
    """Compare intervals with variables in their ends one by one."""
    if said is None or wanted is None or len(said.pieces) != len(wanted.pieces):
        return False
    return all(
        (one.opening, one.closing) == (other.opening, other.closing)
        and same_value(one.low, other.low)
        and same_value(one.high, other.high)
        for one, other in zip(said.pieces, wanted.pieces, strict=True)
    )


def spans(item: Structure) -> list[Span]:
    """Return the disjoint intervals of a region in order; inequalities are joined as their connector says.

    Between inequalities that only a comma parts, all hold, or where that is impossible, one of them.
    Raises Unreadable where an end is no number, or the structure no region.
    """
    if isinstance(item, Items) and item.kind in ("and", "or", "either"):
        parts = [spans(part) for part in item.items]
        union = merged([span for part in parts for span in part])
        if item.kind == "or":
            return union
        common = parts[0]
        for part in parts[1:]:
            common = intersection(common, part)
        return common if common or item.kind == "and" else union
    if isinstance(item, Items) and item.kind == "without":
        return intersection(spans(item.items[0]), complement(spans(item.items[1])))
    region = as_region(item)
    if region is None:
        raise Unreadable("no region")
    found = []
    for piece in region.pieces:
        low, high = _end(piece.low), _end(piece.high)
        found.append(Span(low, piece.opening == "[", high, piece.closing == "]"))
        if low > high and not _equal(low, high):
            raise Unreadable("an interval that ends before it begins")
    return merged(found)


def _end(text: str) -> Any:
    plain = text.replace(" ", "").lstrip("+")
    if plain in (INFINITY, "-" + INFINITY):
        return context().inf if plain == INFINITY else -context().inf
    node = as_node(text)
    if variables(node):
        raise Unreadable("an end with a variable")
    number = value(node, {})
    if not is_real(number):
        raise Unreadable("an end that is not real")
    ctx = context()
    return ctx.mpf(number.numerator) / number.denominator if hasattr(number, "numerator") else ctx.re(number)


def _equal(a: Any, b: Any) -> bool:
    return a == b or (context().isfinite(a) and context().isfinite(b) and are_close(a, b))


def merged(found: list[Span]) -> list[Span]:
    """Join intervals that overlap or touch, drop empty ones."""
    result: list[Span] = []
    for span in sorted(found, key=lambda span: (span.low, not span.with_low)):
        if _equal(span.low, span.high) and not (span.with_low and span.with_high):
            continue
        last = result[-1] if result else span
        touches = _equal(last.high, span.low)
        apart = not (last.with_high or span.with_low) if touches else span.low > last.high
        if not result or apart:
            result.append(span)
            continue
        same_low = _equal(last.low, span.low)
        same_high = _equal(last.high, span.high)
        further = span if span.high > last.high and not same_high else last
        with_high = last.with_high or span.with_high if same_high else further.with_high
        with_low = last.with_low or span.with_low if same_low else last.with_low
        result[-1] = Span(last.low, with_low, further.high, with_high)
    return result


def complement(found: list[Span]) -> list[Span]:
    """Return the rest of the line."""
    infinity = context().inf
    low, with_low, rest = -infinity, False, []
    for span in found:
        rest.append(Span(low, with_low, span.low, not span.with_low))
        low, with_low = span.high, not span.with_high
    rest.append(Span(low, with_low, infinity, False))
    return merged([span for span in rest if span.low < span.high or _equal(span.low, span.high)])


def intersection(some: list[Span], others: list[Span]) -> list[Span]:
    """Return what lies in both."""
    found = []
    for one in some:
        for other in others:
            if _equal(one.low, other.low):
                low, with_low = one.low, one.with_low and other.with_low
            else:
                low, with_low = max((one.low, one.with_low), (other.low, other.with_low))
            if _equal(one.high, other.high):
                high, with_high = one.high, one.with_high and other.with_high
            else:
                high, with_high = min((one.high, one.with_high), (other.high, other.with_high))
            if low < high or _equal(low, high):
                found.append(Span(low, with_low, high, with_high))
    return merged(found)
