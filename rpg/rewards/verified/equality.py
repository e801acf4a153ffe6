"""Compares two answers by their structures."""

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

from rpg.rewards.number import DECIMAL
from rpg.rewards.verified.evaluate import (
    UNDEFINED,
    Number,
    are_equal,
    constant_ratio,
    context,
    is_real,
    value,
    variables,
)
from rpg.rewards.verified.formula import Node, Unreadable, read_formula
from rpg.rewards.verified.normalize import DOUBT
from rpg.rewards.verified.structure import (
    ABSOLUTE,
    INFINITY,
    INTERVALS,
    MEASURE,
    Items,
    Relation,
    Structure,
    is_assignment,
    is_name,
    is_region,
    names_value,
    read,
)
from rpg.rewards.verified.values import same_value

MAX_ITEMS = 40  # length of a list, to bound the matching
End = Fraction | float  # an end of a region; floats are infinities
COMPARISONS = operator.lt, operator.gt, operator.le, operator.ge, operator.eq, operator.ne
SIGNS: dict[str, Callable[[End, End], bool]] = dict(
    zip(("<", ">", "\\le", "\\ge", "=", "\\ne"), COMPARISONS, strict=True)
)
FLIPPED = {">": "<", "\\ge": "\\le"}
NAMES = re.compile(r"\\text\s*\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]")
FUNCTION = re.compile(r"([A-Za-z])\s*\(\s*([A-Za-z])\s*\)\s*=")
PARAMETERS = frozenset("klmn")  # of families
ANY_INTEGER = re.compile(  # after \frac{\pi}{4} + k\pi
    r"(?<=\S)[\s,;]*\(?\s*(?:\\text\s*\{)?\s*(?:(?:where|for|with|and)\s*(?:any|all|some)?\s*)?(?:integers?\s*)?"
    r"\}?\s*[a-z]\s*(?:\\in\s*(?:\\(?:mathbb|text)\s*\{Z\}|Z)|(?:\\text\s*\{)?\s*(?:is|be) any? integer\s*\}?)\s*\)?$"
)
FOR_ALL = re.compile(r"(?<=\S)[\s,;(]*(?:\\text\s*\{\s*)?(?:\\forall|for (?:all|any|every|each)(?![a-z])).*$")
LIMITED = re.compile(rf"\\(?:ne|setminus)(?![a-z])|{DOUBT.pattern}", re.IGNORECASE)
CHOICES = re.compile("A?B?C?D?E?F?")  # several letters of a question
ROUGHLY = Fraction(1, 100)  # of the rounded value after \\approx


def same_answer(answer: str, truth: str) -> bool:
    """Return whether two normalized texts mean the same, up to the names of bound variables."""
    answer, truth = _without_domain(answer, truth), _without_domain(truth, answer)
    renamed = _renamed(answer, truth)
    return same(read(answer), read(truth)) or (renamed != answer and same(read(renamed), read(truth)))


def _without_domain(text: str, other: str) -> str:
    """Remove "k is an integer", and "for all x" that only one of the texts says."""
    text = ANY_INTEGER.sub("", text)
    remark = FOR_ALL.search(text)
    return text[: remark.start()] if remark and not FOR_ALL.search(other) and not LIMITED.search(remark[0]) else text


def _renamed(answer: str, truth: str) -> str:
    """Name the argument of a function, or the parameter of a family such as k\\pi, as in the truth."""
    letters, truth_letters = ({*filter(str.isalpha, NAMES.findall(text))} for text in (answer, truth))
    functions = FUNCTION.match(answer), FUNCTION.match(truth)
    if functions[0] and functions[1] and functions[0][1] == functions[1][1]:
        old, new = ({function[2]} for function in functions if function)
    elif "\\pi" in answer and "\\pi" in truth:
        old, new = (letters - truth_letters) & PARAMETERS, (truth_letters - letters) & PARAMETERS
    else:
        return answer
    if len(old) != 1 or len(new) != 1 or new & letters:
        return answer
    return NAMES.sub(lambda name: min(new) if name[0] in old else name[0], answer)


def same(answer: Structure, truth: Structure) -> bool:
    """Return whether two structures mean the same."""
    if answer == truth:
        return True
    if is_region(answer) or is_region(truth):
        try:
            return same_region(region(answer), region(truth))
        except (Unreadable, *UNDEFINED):
            pass  # ends with variables are compared as text
    if isinstance(answer, Relation) or isinstance(truth, Relation):
        return same_relation(answer, truth)
    if isinstance(answer, Items) != isinstance(truth, Items):  # ACD for A, C, D
        answer, truth = (
            read(", ".join(x)) if isinstance(x, str) and CHOICES.fullmatch(x) else x for x in (answer, truth)
        )
    if isinstance(answer, Items) and isinstance(truth, Items):
        return same_items(answer, truth)
    return isinstance(answer, str) and isinstance(truth, str) and same_value(answer, truth)


def same_items(answer: Items, truth: Items) -> bool:
    """Return whether two lists agree: tuples in order, sets and plain lists in any order; a set is not a tuple."""
    if len(answer.items) != len(truth.items) or len(answer.items) > MAX_ITEMS:
        return False
    answer, truth = (item._replace(kind=",") if item.kind == "point" else item for item in (answer, truth))
    if answer.kind == truth.kind and answer.kind not in (",", "{"):
        return all(map(same, answer.items, truth.items))
    for named, bare in ((answer, truth), (truth, answer)):
        if bare.kind == "()" and named.kind == ",":
            return _same_coordinates(named, bare)
    names = {item.sides[0].partition("_")[0] if is_assignment(item) else "" for item in truth.items}
    if len(names - {""}) > 1 and "" not in names and all(isinstance(item, str) for item in answer.items):
        return all(map(same, answer.items, truth.items))  # 1, 2 for x = 1, y = 2
    if {answer.kind, truth.kind} - {",", "{"}:
        return False
    left = list(truth.items)
    for item in answer.items:
        match = next((other for other in left if same(item, other)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_coordinates(named: Items, point: Items) -> bool:
    """Return whether x = 3, y = 4 are the coordinates of (3, 4), in alphabetical order."""
    values = {item.sides[0]: read(item.sides[1]) for item in named.items if is_assignment(item)}
    if not len(values) == len(named.items) == len(point.items):
        return False
    names = sorted(values, key=lambda name: name.lstrip("\\"))
    return all(same(values[name], item) for name, item in zip(names, point.items, strict=True))


def same_relation(answer: Structure, truth: Structure) -> bool:
    """Return whether two equations or inequalities agree, or a value and an equation that names it."""
    if not isinstance(truth, Relation):
        return isinstance(answer, Relation) and any(same(read(text), truth) for text in stated_values(answer))
    if not isinstance(answer, Relation):
        if (names_value(truth.sides[0]) or _are_constant(truth)) and any(
            same(answer, read(text)) for text in stated_values(truth)
        ):
            return True
        return isinstance(answer, str) and _is_solution(answer, truth)
    if answer.signs == truth.signs and len(answer.sides) == len(truth.sides):
        *left, last = answer.sides
        *others, truth_last = truth.sides
        if all(map(same_value, left, others)) and same(read(last), read(truth_last)):
            return True
    states_it = same_value(answer.sides[0], truth.sides[0]) or _are_constant(answer)  # x = 3 + 4 = 7, or 3 + 4 = 7
    if (
        names_value(truth.sides[0])
        and states_it
        and any(same(read(a), read(b)) for a in stated_values(answer) for b in stated_values(truth))
    ):
        return True
    return same_up_to_factor(answer, truth)


def _is_solution(formula: str, truth: Relation) -> bool:
    """Return whether y = formula is the equation: 2x + 1 for y - 2x = 1."""
    tree = read_formula(formula)
    names = variables(tree) if tree else frozenset()
    return bool(names) and "y" not in names and same_up_to_factor(Relation(("y", formula), ("=",)), truth)


def stated_values(relation: Relation) -> list[str]:
    """Return what an equation says the answer is: "27 + 48 = 75" says 75, "x = \\sqrt{2} \\approx 1.414" either.

    [] if its sides contradict each other, if it is not an equation, or is to be solved: 2x - 6 = 0.
    """
    sides, signs = list(relation.sides), relation.signs
    if not {"=", "\\approx"}.issuperset(signs) or "" in sides:
        return []
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        sides.reverse()  # 3 = x
    tree = read_formula(sides[0])
    if sides[1:] == ["0"] and tree and tree.op == "add" and len(variables(tree)) == 1:
        return []
    if not all(map(_is_plain, sides[:-1])) or any(map(_contradict, signs, sides, sides[1:])):
        return []
    # of 336 \approx 337 only the last is stated: two numbers would be two answers
    is_exact_too = signs[-1] == "\\approx" and not is_name(sides[-2]) and not DECIMAL.fullmatch(sides[-2])
    return sides[-2:] if is_exact_too else sides[-1:]


def _is_plain(text: str) -> bool:
    """Return whether a side is a formula, or words that name the quantity: "not x" is neither."""
    if DOUBT.search(text):
        return False
    if MEASURE.fullmatch(text):
        return True
    return read_formula(text) is not None or not re.search("[0-9]", text)


def _contradict(sign: str, left: str, right: str) -> bool:
    """Return whether two sides of an equation differ as numbers, or as formulas of the same variables."""
    a, b = read_formula(left), read_formula(right)
    if not a or not b or names_value(left) or variables(a) != variables(b) or (variables(a) and sign != "="):
        return False
    return not are_equal(a, b, Fraction(0) if sign == "=" else ROUGHLY)


def _are_constant(relation: Relation) -> bool:
    return all(_constant(side) is not None for side in relation.sides)


def _constant(text: str) -> Number | None:
    """Return the value of a formula without variables, else None."""
    node = read_formula(text)
    try:
        return None if node is None or variables(node) else value(node, {})
    except (Unreadable, *UNDEFINED):
        return None


def same_up_to_factor(answer: Relation, truth: Relation) -> bool:
    """Whether one's sides differ by a multiple of what the other's do: 2x + 4y = 6 is x + 2y = 3."""
    if len(answer.sides) != 2 or len(truth.sides) != 2:
        return False
    (sign, difference), (truth_sign, truth_difference) = _difference(answer), _difference(truth)
    if not difference or not truth_difference or sign != truth_sign or sign not in ("=", "<", "\\le", "\\ne"):
        return False
    ratio = constant_ratio(difference, truth_difference)
    if ratio is None or sign in ("=", "\\ne"):
        return ratio is not None
    return is_real(ratio) and ratio.real > 0


def _difference(relation: Relation) -> tuple[str, Node | None]:
    """Return the sign, < for > and \\le for \\ge, and the difference of the sides in that order; None if unreadable."""
    sign, sides = relation.signs[0], relation.sides
    if sign in FLIPPED:
        sign, sides = FLIPPED[sign], sides[::-1]
    left, right = map(read_formula, sides)
    return sign, Node("add", (left, Node("neg", (right,)))) if left and right else None


class Region(NamedTuple):
    """Part of the number line: names of its variable, possible ends, and its indicator function."""

    names: frozenset[str]
    ends: tuple[End, ...]
    holds: Callable[[End], bool]


def same_region(answer: Region, truth: Region) -> bool:
    """Return whether two regions agree at every end, between neighbours and beyond, and in the variable if named."""
    points = _points(answer.ends + truth.ends)
    return len(answer.names | truth.names) <= 1 and all(answer.holds(point) == truth.holds(point) for point in points)


def region(item: Structure) -> Region:
    """Return the region of a structure. Raises Unreadable if it has none; UNDEFINED if an end has no value."""
    if isinstance(item, Relation):
        return _of_relation(item)
    if not isinstance(item, Items):
        raise Unreadable("no region")
    if item.kind == "in":
        inside = region(item.items[1])
        return inside._replace(names=inside.names | {item.items[0]})
    if item.kind in INTERVALS and len(item.items) == 2:
        low, high = map(_end, item.items)
        if high < low:
            raise Unreadable("an interval that ends before it begins")
        above, below = (operator.le if bracket in "[]" else operator.lt for bracket in item.kind)
        return Region(frozenset(), (low, high), lambda x: above(low, x) and below(x, high))
    if item.kind == "{":
        numbers = tuple(map(_end, item.items))
        return Region(frozenset(), numbers, numbers.__contains__)
    parts = [region(part) for part in item.items]
    ends = tuple(end for part in parts for end in part.ends)
    kind = item.kind
    if kind == "either":
        kind = "and" if any(all(part.holds(point) for part in parts) for point in _points(ends)) else "or"
    holds: dict[str, Callable[[End], bool]] = {
        "and": lambda x: all(part.holds(x) for part in parts),
        "or": lambda x: any(part.holds(x) for part in parts),
        "without": lambda x: parts[0].holds(x) and not parts[1].holds(x),
    }
    if kind not in holds:
        raise Unreadable("a list")
    return Region(frozenset().union(*(part.names for part in parts)), ends, holds[kind])


def _of_relation(relation: Relation) -> Region:
    """Return where x < 3, 1 < x \\le 3, |x| \\ge 2, x \\ne 3 or x = 3 holds."""
    sides = [match[1] if (match := ABSOLUTE.fullmatch(side)) else side for side in relation.sides]
    inside = sides != list(relation.sides)
    names = frozenset(filter(is_name, sides))
    if len(names) != 1 or not SIGNS.keys() >= set(relation.signs):
        raise Unreadable("not one variable against numbers")
    numbers = [None if is_name(side) else _end(side) for side in sides]
    ends = tuple(end for end in numbers if end is not None)

    def holds(x: End) -> bool:
        x = abs(x) if inside else x
        values = [x if number is None else number for number in numbers]
        return all(SIGNS[sign](*pair) for sign, pair in zip(relation.signs, itertools.pairwise(values), strict=True))

    return Region(names, ends + tuple(-end for end in ends) if inside else ends, holds)


def _end(item: Structure) -> End:
    """Return the value of an end, irrational ones to 100 digits. Raises Unreadable if it is not real."""
    if not isinstance(item, str):
        raise Unreadable("no end")
    plain = item.replace(" ", "").lstrip("+")
    if plain in (INFINITY, "-" + INFINITY):
        return math.inf if plain == INFINITY else -math.inf
    number = _constant(item)
    if number is None or not is_real(number):
        raise Unreadable("an end that is not a real number")
    if isinstance(number, Fraction):
        return number
    return Fraction(int(context().nint(context().re(number) * 10**100)), 10**100)


def _points(ends: Iterable[End]) -> list[End]:
    """Return all finite ends, a number between neighbours, and one beyond each side."""
    finite = sorted({end for end in ends if isinstance(end, Fraction)}) or [Fraction(0)]
    between = [(low + high) / 2 for low, high in itertools.pairwise(finite)]
    return [finite[0] - 1, *finite, *between, finite[-1] + 1]
