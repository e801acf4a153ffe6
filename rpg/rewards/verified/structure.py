"""Parses the outer form of an answer: value, list, tuple, set, equation, region, matrix. Values stay text."""

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeGuard

from rpg.rewards.verified.formula import DERIVATIVE
from rpg.rewards.verified.normalize import strip_ends
from rpg.rewards.verified.values import total, words

INFINITY = "\\infty"
NAME = re.compile(
    r"[A-Z](?:_\{?\w\}?)?(?:\s*[A-Z](?:_\{?\w\}?)?){1,3}|"  # the segment AB
    r"(?:[A-Za-z]|\\(?:vec|hat|bar)\s*\{[A-Za-z ]+\}|\\(?!pi\b)[a-z]+)"
    r"'*(?:_(?:\{[^{}]*\}|\w|\\[a-z]+))?'*(?:(?:\^\s*\{-1\})?\s*\(\s*(?:[A-Za-z](?:\s*,\s*[A-Za-z])*)\s*\))?"
)
# |AB|, P:Q, V_{1}:V_{2}, \frac{AB}{CD}: a length, a ratio of lengths, areas or volumes; a probability, a limit, A^{-1}
PART = r"[A-Z](?:_(?:\w|\{\w+\})|[A-Z]{0,4})"
MEASURE = re.compile(
    rf"\|[A-Z]{{2}}\||{PART}(?:\s*:\s*{PART})+|P\s*\([^()]*\)|\\(?:lim|int|sum|prod|gcd|max|min)(?![a-z]).*|"
    r"\\frac\s*\{(?:[A-Z]{2}|[a-z])\}\s*\{(?:[A-Z]{2}|[a-z])\}|[A-Z]{2}/[A-Z]{2}|[A-Z]\s*\^\s*\{-1\}|"
    rf"{DERIVATIVE.pattern}|[A-Z]\s*\\c[au]p\s*[A-Z]|\|(?:[A-Za-wz]|\\vec\s*\{{\w+\}})\||[A-Za-z]'*\(-?[0-9]+\)|"
    r"\\(?:sin|cos|tan)\s*[0-9]?\s*(?:[A-Z]|\\(?:alpha|beta|gamma|theta|phi)(?![a-z]))"
)
NO_NAMES = frozenset(("e", "i", INFINITY, "\\emptyset"))
OPENING, CLOSING = "([{", ")]}"
ENCLOSED = re.compile(r"(\\\{|[(\[{])(.*?)(\\\}|[)\]}])")
PARTS_OF_LINE = ("or", "and", "either", "without")
INTERVALS = {"<<": "()", "<\\le": "(]", "\\le<": "[)", "\\le\\le": "[]"}  # of the signs in a < x \\le b
WORD = r"\\text\{{\s*(?:{0})\s*\}}|(?<![A-Za-z\\])(?:{0})(?![A-Za-z])"
SEPARATOR, OR = re.compile("[,;]|" + WORD.format("and|or")), re.compile(WORD.format("or"))
LIST_COMMA = re.compile(r"[0-9],(?![0-9]{3}(?![0-9]))[0-9]")  # then 54,108 are two numbers, else one
NO_THOUSANDS = re.compile(rf"(?!(?<=[0-9]),[0-9]{{3}}(?![0-9]))(?:{SEPARATOR.pattern})")
RELATION = re.compile(r"\\(?:le|ge|ne|in|approx|equiv|notin|subset|to)(?![A-Za-z])|[=<>]")
FLIPPED = {">": "<", "\\ge": "\\le"}
INEQUALITIES = frozenset(("<", "\\le", "\\ne"))
ABSOLUTE = re.compile(r"^\|\s*(\S+?)\s*\|$")
UNION = re.compile(r"\\cup(?![A-Za-z])")
WITHOUT = re.compile(r"\\setminus(?![A-Za-z])|-(?=\s*\\\{)")
SYSTEM = re.compile(r"\\begin\{(cases|aligned|align\*?|gathered)\}(.*)\\end\{\1\}")
CONDITION = re.compile(r"\\text\s*\{\s*(?:if|for|when)\s*\}|(?<![a-z\\])(?:if|for|when)(?![a-z])")
ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?")
MATRIX = re.compile(
    r"(.*?)[(\[]?\s*\\begin\{([pbB]?(?:small)?matrix|array)\}(?:\{[lcr| ]*\})?((?:(?!\\begin).)*)\\end\{\2\}\s*[)\]]?"
)
EITHER_SIGN = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
OPPOSITE, MAX_SIGNS = {"+": "-", "-": "+"}, 3
LABEL = re.compile(r"(?:\\text\s*\{\s*)?([A-Za-z][A-Za-z ]{2,}?)\s*(?:\}\s*:|:\s*\}|:)\s*(?=[^\s:])")  # Ann: 3
NUMBERED = re.compile(r"\(([1-9a-h]|[ivx]+)\)\s+(.+)")  # a part of an answer: (1) 5
NUMBERS = ("1 2 3 4 5 6 7 8 9", "a b c d e f g h i", "i ii iii iv v vi vii viii ix")
POINT = re.compile(r"([A-Z](?:'|_\{?\w\}?)?)\s*(\(.*\))")  # A(1, 2)
RULE = re.compile(r"([^|:]+?)\s*(?:\\in\s*\\mathbb\{R\}\s*)?[|:]\s*(.*)")  # x \in \mathbb{R} | x > 3


class Items(NamedTuple):
    """Several structures; `kind` is their relation.

    "," in any order, "{" a set, "()", "[]", "(]", "[)" a tuple or an interval; of parts of the number line "or", "and",
    "without", "either" (parted by a comma: all hold or, where they cannot, one), "in" (name, part) of 1 < x < 4;
    "matrix" rows, "row" cells; "set" a set in a set; "point" the assignments of one solution: (x, y) = (3, 4).
    """

    kind: str
    items: tuple


class Relation(NamedTuple):
    """Sides and the signs between them, < for >: x = 3, x < 4, 2x + y < 4."""

    sides: tuple[str, ...]
    signs: tuple[str, ...]


Structure = str | Items | Relation
NAMED_SETS = {"\\emptyset": Items("or", ()), "\\mathbb{R}": Items("()", ("-" + INFINITY, INFINITY))}


def is_name(text: str) -> bool:
    """Return whether this is a variable, possibly indexed, or a function of variables."""
    return bool(NAME.fullmatch(text)) and text not in NO_NAMES


def names_value(text: str) -> bool:
    """Return whether this is the left side of an equation that states a value: x, |AB|, P:Q."""
    return is_name(text) or text in ("e", "i") or bool(MEASURE.fullmatch(text))


def is_assignment(item: Structure) -> TypeGuard[Relation]:
    """Return whether this has the form x = 3, for any name and value."""
    return isinstance(item, Relation) and item.signs == ("=",) and is_name(item.sides[0])


def assigned_name(item: Structure) -> str:
    """Return x for x = 3 and x_1 = 3, else ""."""
    return item.sides[0].partition("_")[0] if is_assignment(item) else ""


def bounded_name(item: Structure) -> str:
    """Return the variable that inequalities or x \\in A bound, else ""."""
    if isinstance(item, Items) and item.kind in PARTS_OF_LINE:
        return next(filter(None, map(bounded_name, item.items)), "")
    if isinstance(item, Items):
        return item.items[0] if item.kind == "in" else ""
    if not isinstance(item, Relation) or not INEQUALITIES.issuperset(item.signs):
        return ""
    names = {*filter(is_name, (ABSOLUTE.sub(r"\1", side) for side in item.sides))}
    return names.pop() if len(names) == 1 else ""


def is_region(item: Structure) -> bool:
    """Return whether this can only be a part of the number line."""
    return bool(bounded_name(item)) or (isinstance(item, Items) and item.kind in PARTS_OF_LINE)


def split(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Split at matches outside brackets and environments; return (parts, separators)."""
    parts, signs, start, depth, position = [], [], 0, 0, 0
    while position < len(text):
        character = text[position]
        depth += text.startswith("\\begin{", position) - text.startswith("\\end{", position)
        depth += (character in OPENING) - (character in CLOSING)
        match = pattern.match(text, position) if not depth else None
        if match:
            parts.append(text[start:position].strip())
            signs.append(match.group().strip())
            start = position = match.end()
        else:
            position += 1
    return [*parts, text[start:].strip()], signs


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Return (opening, inside, closing) if one pair of brackets encloses `text`, else None."""
    match = ENCLOSED.fullmatch(text)
    if not match or len(match[1]) != len(match[3]) or (match[1] in "([") != (match[3] in ")]"):
        return None
    depths = [0, *itertools.accumulate((character in OPENING) - (character in CLOSING) for character in match[2])]
    return (match[1], match[2].strip(), match[3]) if min(depths) == depths[-1] == 0 else None


@lru_cache(maxsize=4096)
def read(text: str) -> Structure:
    """Return the structure of a normalized text; by default a value."""
    if (meaning := words(text) or text) in NAMED_SETS:
        return NAMED_SETS[meaning]
    parts, separators = split(text, SEPARATOR if LIST_COMMA.search(text) else NO_THOUSANDS)
    if separators:
        joining = " ".join(separators)
        if "or" not in joining and total(joined := SEPARATOR.sub(" ", text)):
            return joined
        if re.search("and.*or|or.*and", joining) and is_region(region := _read_list(*split(text, OR))):
            return region
        parts = [part for part in parts if part]
        return _read_list(parts, separators) if parts else text
    if not text.startswith(("{", "\\{")) and 0 < len(either := EITHER_SIGN.findall(text)) <= MAX_SIGNS:
        return _read_list(_signed(text, either), ["and" if "\\ne" in text else "or"])
    if label := LABEL.match(text):
        return _assign(label[1], text[label.end() :])
    sides, signs = split(text, RELATION)
    return _read_relation(sides, signs) if signs else _read_term(text)


def _signed(text: str, either: list[str]) -> list[str]:
    """Return the texts for each choice of the signs: \\mp goes with \\pm, and two \\pm are independent."""
    parts = EITHER_SIGN.split(text)
    if "\\mp" in either:
        choices = [[sign if mark == either[0] else OPPOSITE[sign] for mark in either] for sign in "+-"]
    else:
        choices = list(itertools.product("+-", repeat=len(either)))
    return ["".join(itertools.chain(*zip(parts, [*signs, ""], strict=True))).strip() for signs in choices]


def _read_list(parts: list[str], separators: list[str]) -> Structure:
    """Read several parts: inequalities of one variable form a region, other parts an unordered list."""
    if numbered := _numbered(parts):
        return Items(",", numbered)
    items = [read(part) for part in parts]
    if len(items) == 1:
        return items[0]
    bounded = {bounded_name(item) or (item.sides[0] if is_assignment(item) else "") for item in items}
    joined = " ".join(separators)
    if "or" in joined and INFINITY in "".join(parts) and all(isinstance(item, Items) for item in items):  # no points
        return Items("or", tuple(items))
    if len(bounded) == 1 and any(map(bounded_name, items)):  # "x < 1 or x = 3"
        return Items("or" if "or" in joined else "and" if "and" in joined else "either", tuple(items))
    assigned = {*map(assigned_name, items)} - {""}
    if "or" in joined and (len(assigned) == len(items) or all(is_name(part) or words(part) for part in parts)):
        return " or ".join(sorted(parts, key=str.casefold))  # x = 1 or y = 2, A or B: neither a point nor a list
    if points := _points(items):
        return Items(",", points)
    lists = (item.items if isinstance(item, Items) and item.kind in (",", "point") else (item,) for item in items)
    return Items(",", tuple(itertools.chain.from_iterable(lists)))


def _numbered(parts: list[str]) -> tuple[Relation, ...]:
    """Return a = 5, b = 6 for the parts (1) 5, (2) 6 or (a) 5, (b) 6; () for other parts."""
    matches = [match for part in parts if (match := NUMBERED.fullmatch(part))]
    numbers = " ".join(match[1] for match in matches)
    if len(matches) < len(parts) or not any(order.startswith(numbers) for order in NUMBERS):
        return ()
    return tuple(Relation((name, match[2]), ("=",)) for name, match in zip(NUMBERS[1][::2], matches, strict=False))


def _points(items: Sequence[Structure]) -> tuple[Items, ...]:
    """Return the points that a list names: (x, y) = (1, 2), (3, 4) x = 1, y = 2, x = 3, y = 4, two systems; else ()."""
    rows, first = list[list[Relation]](), items[0]
    names = [item.sides[0] for item in first.items if is_assignment(item)] if isinstance(first, Items) else []
    if isinstance(first, Items) and 1 < len({*names}) == len(first.items):
        points = [item.items for item in items if isinstance(item, Items) and item.kind in ("point", "()", ",")]
        rows = [list(map(_assign, names, point)) for point in points if len(point) == len(names)]
        is_whole = len(rows) == len(items)
    else:
        relations = list(filter(is_assignment, items))
        count = len({relation.sides[0] for relation in relations})
        if 1 < count < len(items) == len(relations):
            rows = [relations[start : start + count] for start in range(0, len(items), count)]
        is_whole = all(len({relation.sides[0] for relation in row}) == count for row in rows)
    return tuple(Items("point", tuple(row)) for row in rows) if is_whole else ()


def _assign(name: str, value: Structure) -> Relation:
    return value if isinstance(value, Relation) else Relation((name, str(value)), ("=",))


def _read_relation(sides: list[str], signs: list[str]) -> Structure:
    if signs == ["\\in"] and enclosed(sides[0]) and sides[1].startswith("\\{"):
        return read(f"{sides[0]} = {sides[1][2:-2]}")  # (x, y) \in \{(1, 2), (3, 4)\}
    if signs == ["\\in"] and is_name(sides[0]):
        inside = read(sides[1])
        if isinstance(inside, Items) and inside.kind == "{":
            return Items(",", tuple(_assign(sides[0], item) for item in inside.items))
        return Items("in", (sides[0], inside))
    if signs == ["="] and (names := enclosed(sides[0])) and (values := enclosed(sides[1])):
        left, right = (split(inside[1], SEPARATOR)[0] for inside in (names, values))
        if names[::2] == values[::2] and len(left) == len(right) and all(map(is_name, left)):
            return Items("point", tuple(map(_assign, left, right)))
    if FLIPPED.keys() >= {*signs}:  # 3 > x > 1
        sides, signs = sides[::-1], [FLIPPED[sign] for sign in reversed(signs)]
    if (kind := INTERVALS.get("".join(signs))) and is_name(sides[1]):
        return Items("in", (sides[1], Items(kind, (read(sides[0]), read(sides[2])))))
    return Relation(tuple(sides), tuple(signs))


def _read_term(text: str) -> Structure:
    """Read a term without separators or relations outside its brackets."""
    if match := SYSTEM.fullmatch(text):
        rows = [row.replace("&", "").strip(" ,;") for row in ROW_END.split(match[2])]
        if match[1] == "cases" and "&" in match[2]:  # a function
            cells = [CONDITION.sub("", row).split("&") for row in ROW_END.split(match[2]) if row.strip()]
            return Items("{", tuple(Items("()", tuple(read(strip_ends(cell)) for cell in row)) for row in cells))
        return read(", ".join(filter(None, rows)).replace(", =", " ="))
    if match := MATRIX.fullmatch(text):
        rows = [[cell.strip() for cell in row.split("&")] for row in ROW_END.split(match[3]) if row.strip()]
        if match[1]:
            rows = [[f"({match[1]})\\cdot ({cell})" for cell in row] for row in rows]
        return Items("matrix", tuple(Items("row", tuple(row)) for row in rows))
    parts, signs = split(text, UNION)
    if signs:
        return Items("or", tuple(map(read, parts)))
    parts, signs = split(text, WITHOUT)
    if len(signs) == 1:
        return Items("without", tuple(map(read, parts)))
    return _read_brackets(text)


def _read_brackets(text: str) -> Structure:
    """Read a tuple, a set or a bracketed value."""
    pair = enclosed(text)
    if not pair:
        point = POINT.fullmatch(text)
        return _assign(point[1], point[2]) if point and isinstance(read(point[2]), Items) else text
    opening, inside, closing = pair
    is_set = opening in ("\\{", "{")
    if is_set and (rule := RULE.fullmatch(inside)):
        region = read(rule[2])
        items = region.items if isinstance(region, Items) and region.kind == "," else (region,)
        return region if {bounded_name(item) or assigned_name(item) for item in items} == {rule[1]} else text
    parts, separators = split(inside, SEPARATOR)
    if is_set:
        content = _read_list(parts, separators)  # also \{\pm 1\}
        items = content.items if isinstance(content, Items) and content.kind == "," else (content,)
        marked = (Items("set", (x,)) if isinstance(x, Items) and x.kind in ("{", "or") else x for x in items)
        return Items("{", tuple(marked))
    if not separators:
        return read(inside) if opening + closing == "()" else text
    return Items(opening + closing, tuple(map(read, parts)))
