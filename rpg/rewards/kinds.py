"""The kinds of answers: a value, several, an equation, a region of the number line, a matrix; values stay text."""

import re
from typing import NamedTuple, TypeGuard

NAME = re.compile(
    r"[A-Z](?:_\{?\w\}?)?(?:\s*[A-Z](?:_\{?\w\}?)?){1,3}|"  # the segment AB
    r"(?:[A-Za-z]|\\(?!pi\b)[a-z]+)'*(?:_(?:\{[^{}]*\}|\w|\\[a-z]+))?'*(?:\s*\(\s*(?:[A-Za-z](?:\s*,\s*[A-Za-z])*)\s*\))?"
)
NO_NAMES = frozenset(("e", "i", "\\infty", "\\emptyset"))
INFINITY = "\\infty"
CONNECTORS = ("and", "or", "either", "without")  # kinds of Items that join regions to one


class Value(NamedTuple):
    """A number with or without a unit, a formula, a ratio, words."""

    text: str


class Items(NamedTuple):
    """Several answers: kind "," (in any order), "{" (a set), or the brackets of a tuple such as "()"."""

    kind: str
    items: tuple


class Relation(NamedTuple):
    """Sides and the signs between them: x = 3, 2x + y < 4."""

    sides: tuple[str, ...]
    signs: tuple[str, ...]


class Piece(NamedTuple):
    """An interval: "(" or "[", its ends as text, ")" or "]"."""

    opening: str
    low: str
    high: str
    closing: str


class Region(NamedTuple):
    """A union of intervals, of the variable `name` where the answer says one."""

    pieces: tuple[Piece, ...]
    name: str = ""


class Matrix(NamedTuple):
    """Rows of texts."""

    rows: tuple[tuple[str, ...], ...]


Structure = Value | Items | Relation | Region | Matrix
WHOLE_LINE = Region((Piece("(", "-" + INFINITY, INFINITY, ")"),))


def is_assignment(item: Structure) -> TypeGuard[Relation]:
    """Whether this is x = 3, for any name and any value."""
    return isinstance(item, Relation) and item.signs == ("=",) and is_name(item.sides[0])


def is_name(text: str) -> bool:
    """Whether this is one variable, indexed or not, or a function of variables."""
    return bool(NAME.fullmatch(text)) and text not in NO_NAMES


def as_relation(item: Structure) -> Structure:
    """Return a region that one inequality made as that inequality again: its end may hold another variable."""
    if not isinstance(item, Region) or not item.name or len(item.pieces) != 1:
        return item
    (piece,) = item.pieces
    if piece.low == "-" + INFINITY:
        return Relation((item.name, piece.high), ("<" if piece.closing == ")" else "\\le",))
    if piece.high == INFINITY:
        return Relation((piece.low, item.name), ("<" if piece.opening == "(" else "\\le",))
    return item


def as_point(item: Relation) -> Structure:
    """Return x = 3 as a region of one point, any other relation as it is."""
    if not is_assignment(item):
        return item
    return Region((Piece("[", item.sides[1], item.sides[1], "]"),), item.sides[0])


def text_of(item: Structure) -> str:
    """Return the text of a value, "" of anything else."""
    return item.text if isinstance(item, Value) else ""


def as_region(item: Structure) -> Region | None:
    """Return the region that brackets, a set of points or inequalities can be read as, else None."""
    if isinstance(item, Region):
        return item
    if isinstance(item, Items) and item.kind == "{" and all(isinstance(part, Value) for part in item.items):
        return Region(tuple(Piece("[", part.text, part.text, "]") for part in item.items))
    if isinstance(item, Items) and item.kind == ",":
        regions = [as_region(part) for part in item.items]
        return Region(tuple(piece for region in regions if region for piece in region.pieces)) if all(regions) else None
    if isinstance(item, Items) and item.kind in ("()", "[]", "(]", "[)") and len(item.items) == 2:
        low, high = (text_of(part) for part in item.items)
        return Region((Piece(item.kind[0], low, high, item.kind[1]),)) if low and high else None
    return None
