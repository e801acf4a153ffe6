"""What an answer is: a value, a list, a tuple, a set, an equation, an inequality, a region, a matrix.

Only the outer form is read here, by its brackets, separators and relation signs; values stay text for compare.py.
"""

import re
from functools import lru_cache

from rpg.rewards.kinds import (
    CONNECTORS,
    INFINITY,
    WHOLE_LINE,
    Items,
    Matrix,
    Piece,
    Region,
    Relation,
    Structure,
    Value,
    as_point,
    as_region,
    is_assignment,
    is_name,
    text_of,
)

OPENING, CLOSING = "([{", ")]}"
PAIRS = (("\\{", "\\}"), ("(", ")"), ("[", "]"), ("(", "]"), ("[", ")"), ("{", "}"))
SEPARATOR = re.compile(r"[,;]|\\text\{\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
LIST_COMMA = re.compile(r"[0-9],(?![0-9]{3}(?![0-9]))[0-9]")  # then 54,108 are two numbers, else one
NO_THOUSANDS = re.compile(rf"(?!(?<=[0-9]),[0-9]{{3}}(?![0-9]))(?:{SEPARATOR.pattern})")
RELATION = re.compile(r"\\(?:le|ge|ne|in|approx|equiv|notin|subset|to)(?![A-Za-z])|[=<>]")
UNION = re.compile(r"\\cup(?![A-Za-z])")
WITHOUT = re.compile(r"\\setminus(?![A-Za-z])|-(?=\s*\\\{)")
EXCEPT = re.compile(r"all real (?:numbers|values)(?: of)?(?: x)? (?:except|other than)(?: for)? (?:x ?= ?)?(.+)", re.I)
SYSTEM = re.compile(r"\\begin\{(cases|aligned|align\*?|gathered)\}(.*)\\end\{\1\}")
ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?")
MATRIX = re.compile(r"(.*?)\\begin\{([pbB]?(?:small)?matrix|array)\}(?:\{[lcr| ]*\})?((?:(?!\\begin).)*)\\end\{\2\}")
BRACKETED_MATRIX = re.compile(r"[(\[]\s*(\\begin\{(matrix|array|smallmatrix)\}.*\\end\{\2\})\s*[)\]]")
EITHER_SIGN = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
RULE = re.compile(r"[|:]")
MEMBER = re.compile(r"\\in(?![a-z])")
ABSOLUTE = re.compile(r"\|\s*(\S+?)\s*\|")
NOTHING = re.compile(
    r"none|no (?:(?:real|integer|such|possible) )?(?:solutions?|roots?|values?|numbers?|integers?)(?: exists?)?|"
    r"(?:the )?empty set|\\emptyset|\\\{ *\\\}|\{\}"
)
REALS = frozenset(("\\mathbb{R}", "\\mathbf{R}", "all real numbers", "all reals", "all real number", "all real values"))


def split(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Split at the matches that stand in no bracket and no environment: (parts, what parted them)."""
    parts, signs, start, depth, position = [], [], 0, 0, 0
    while position < len(text):
        character = text[position]
        if text.startswith(("\\begin{", "\\end{"), position):
            depth += 1 if text.startswith("\\b", position) else -1
        if character in OPENING:
            depth += 1
        elif character in CLOSING:
            depth -= 1
        match = pattern.match(text, position) if not depth else None
        if match and match.end() > position:
            parts.append(text[start:position].strip())
            signs.append(match.group().strip())
            start = position = match.end()
        else:
            position += 1
    return [*parts, text[start:].strip()], signs


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Return (opening, inside, closing) where one pair of brackets holds the whole of `text`, else None."""
    for opening, closing in PAIRS:
        if not (text.startswith(opening) and text.endswith(closing)) or len(text) < len(opening) + len(closing):
            continue
        if opening == "{" and text.endswith("\\}"):
            continue
        inside = text[len(opening) : len(text) - len(closing)]
        depth = 0
        for character in inside:
            depth += (character in OPENING) - (character in CLOSING)
            if depth < 0:
                return None
        return (opening, inside.strip(), closing) if depth == 0 else None
    return None


@lru_cache(maxsize=4096)
def read(text: str) -> Structure:
    """Return the structure of a normalized text; what has no other is a Value."""
    if NOTHING.fullmatch(text.casefold()):
        return Region(())
    if text.casefold() in REALS or text in REALS:
        return WHOLE_LINE
    if match := EXCEPT.fullmatch(text.replace("\\ne ", "except ")):
        return read(f"\\mathbb{{R}} \\setminus \\{{{match[1]}\\}}")
    parts, separators = split(text, SEPARATOR if LIST_COMMA.search(text) else NO_THOUSANDS)
    if separators:
        parts = [part for part in parts if part]
        return read_list(parts, separators) if parts else Value(text)
    if len(EITHER_SIGN.findall(text)) == 1:
        signs = (" ".join(EITHER_SIGN.sub(sign, text).split()) for sign in "+-")
        return Items(",", tuple(read(sign.removeprefix("+").strip()) for sign in signs))
    sides, signs = split(text, RELATION)
    if signs:
        return read_relation(sides, signs)
    return read_term(text)


def read_list(parts: list[str], separators: list[str]) -> Structure:
    """Read several parts: inequalities make one region, anything else is a list in any order."""
    items = [read(part) for part in parts]
    if len(items) == 1:
        return items[0]
    names = {item.name for item in items if isinstance(item, Region)}
    if names:  # "x < 1 or x = 3"
        items = [as_point(item) if isinstance(item, Relation) and {item.sides[0]} == names else item for item in items]
    first = items[0]
    if all(isinstance(item, Region) for item in items) and len({item.name for item in items}) == 1 and first.name:
        joined = " ".join(separators)
        return Items("or" if "or" in joined else "and" if "and" in joined else "either", tuple(items))
    # "x = 1, 2": the name holds for all
    if is_assignment(first) and all(isinstance(item, Value) for item in items[1:]):
        items = [Relation((first.sides[0], part), ("=",)) for part in (first.sides[1], *parts[1:])]
    flat = []
    for item in items:
        flat.extend(item.items if isinstance(item, Items) and item.kind == "," else (item,))
    return Items(",", tuple(flat))


def read_relation(sides: list[str], signs: list[str]) -> Structure:
    """Read an equation, or an inequality; of one variable against numbers that is a region."""
    if not sides[0] and signs[0] in ("=", "\\approx"):
        sides, signs = sides[1:], signs[1:]
        return read_relation(sides, signs) if signs else read(sides[0])
    if signs == ["\\in"] and is_name(sides[0]):
        inside = read(sides[1])
        if isinstance(inside, Items) and inside.kind == "{":
            return Items(",", tuple(Relation((sides[0], text_of(item)), ("=",)) for item in inside.items))
        region = as_region(inside)
        return region._replace(name=sides[0]) if region else Value(f"{sides[0]} \\in {sides[1]}")
    if signs == ["="] and (names := enclosed(sides[0])) and (values := enclosed(sides[1])):
        left, right = (split(inside[1], SEPARATOR)[0] for inside in (names, values))
        if len(left) == len(right) and all(is_name(name) for name in left):
            return Items(",", tuple(Relation(pair, ("=",)) for pair in zip(left, right, strict=True)))
    region = read_inequality(sides, signs)
    return region or Relation(tuple(sides), tuple(signs))


def read_inequality(sides: list[str], signs: list[str]) -> Region | None:
    """Return the region of x < 3, 1 < x \\le 3 or x \\ne 3, else None."""
    if signs == ["\\ne"] and is_name(sides[0]):
        end = sides[1]
        return Region((Piece("(", "-" + INFINITY, end, ")"), Piece("(", end, INFINITY, ")")), sides[0])
    if len(sides) == 2 and (match := ABSOLUTE.fullmatch(sides[0])) and is_name(match[1]):
        name, end = match[1], sides[1]
        if signs[0] in ("<", "\\le"):
            opening, closing = ("(", ")") if signs[0] == "<" else ("[", "]")
            return Region((Piece(opening, f"-({end})", end, closing),), name)
        if signs[0] in (">", "\\ge"):
            opening, closing = ("(", ")") if signs[0] == ">" else ("[", "]")
            outside = Piece("(", "-" + INFINITY, f"-({end})", closing), Piece(opening, end, INFINITY, ")")
            return Region(outside, name)
    if set(signs) <= {">", "\\ge"}:
        sides, signs = sides[::-1], ["<" if sign == ">" else "\\le" for sign in signs[::-1]]
    if not set(signs) <= {"<", "\\le"}:
        return None
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        return Region((Piece("(" if signs[0] == "<" else "[", sides[0], INFINITY, ")"),), sides[1])
    if len(sides) == 2 and is_name(sides[0]) and not is_name(sides[1]):
        return Region((Piece("(", "-" + INFINITY, sides[1], ")" if signs[0] == "<" else "]"),), sides[0])
    if len(sides) == 3 and is_name(sides[1]):
        opening, closing = "(" if signs[0] == "<" else "[", ")" if signs[1] == "<" else "]"
        return Region((Piece(opening, sides[0], sides[2], closing),), sides[1])
    return None


def read_term(text: str) -> Structure:
    """Read what has neither separators nor relations outside its brackets."""
    if bracketed := BRACKETED_MATRIX.fullmatch(text):
        text = bracketed[1]
    if match := SYSTEM.fullmatch(text):
        rows = [row.replace("&", "").strip(" ,;") for row in ROW_END.split(match[2])]
        if match[1] != "cases" or "&" not in match[2]:  # with it, a function by cases
            return read(", ".join(filter(None, rows)).replace(", =", " ="))
    if match := MATRIX.fullmatch(text):
        rows = [row for row in ROW_END.split(match[3]) if row.strip()]
        factor = f"({match[1]})\\cdot " if match[1] else ""
        cells = (
            tuple(f"{factor}({cell.strip()})" if factor else cell.strip() for cell in row.split("&")) for row in rows
        )
        return Matrix(tuple(cells))
    parts, signs = split(text, UNION)
    if signs:
        regions = [as_region(read(part)) for part in parts]
        if all(regions):
            return Region(tuple(piece for region in regions if region for piece in region.pieces))
        return Value(text)
    parts, signs = split(text, WITHOUT)
    if len(signs) == 1 and (base := as_region(read(parts[0]))) and (taken := as_region(read(parts[1]))):
        return Items("without", (base, taken))
    return read_brackets(text)


def read_brackets(text: str) -> Structure:
    """Read a tuple, a set or a bracketed value."""
    pair = enclosed(text)
    if not pair:
        return Value(text)
    opening, inside, closing = pair
    parts, separators = split(inside, SEPARATOR)
    if opening in ("\\{", "{") and (separators or opening == "\\{"):
        if not inside:
            return Region(())
        if split(inside, RULE)[1]:
            return read_rule(inside) or Value(text)
        content = read(inside)  # also \{\pm 1\}
        return Items("{", content.items if isinstance(content, Items) and content.kind == "," else (content,))
    if not separators:
        return Value(text) if split(inside, RELATION)[1] or opening + closing != "()" else read(inside)
    if EITHER_SIGN.search(text):
        return Value(text)
    return Items(opening + closing, tuple(read(part) for part in parts))


def read_rule(inside: str) -> Structure | None:
    """Return the region that \\{x \\mid x > 3\\} describes, None for any other rule of a set."""
    parts, _ = split(inside, RULE)
    name = split(parts[0], MEMBER)[0]
    if len(parts) != 2 or not is_name(name[0]) or name[1:] not in ([], ["\\mathbb{R}"]):
        return None
    region = read(parts[1])
    joined = region.items if isinstance(region, Items) and region.kind in CONNECTORS else (region,)
    if not all(isinstance(part, Region) and part.name == name[0] for part in joined):
        return None
    return region
