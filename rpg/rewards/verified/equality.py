"""Compares two answers by their structures."""

import re
from fractions import Fraction
from functools import lru_cache

from rpg.rewards.verified.evaluate import are_equal, constant, constant_ratio, is_real, nodes, substituted, variables
from rpg.rewards.verified.formula import COUNTERS, DECIMAL, Node, number, read_formula
from rpg.rewards.verified.normalize import DOUBT, without_text
from rpg.rewards.verified.regions import same_region
from rpg.rewards.verified.structure import (
    INEQUALITIES,
    Items,
    Relation,
    Structure,
    assigned_name,
    bounded_name,
    is_assignment,
    is_name,
    is_region,
    names_value,
    read,
)
from rpg.rewards.verified.values import same_value

MAX_ITEMS = 40  # length of a list, to bound the matching
NAMES = re.compile(r"\\text\s*\{[^{}]*\}|\\[A-Za-z]+|[a-z]{3,}|no(?![a-z])|[A-Za-z](?:_(?:\w|\{\w\}))?")  # or words
BINOMIAL = re.compile(r"(?<![A-Za-z\\])C\(([^(),]+),([^(),]+)\)")  # if no point
FUNCTION = re.compile(r"([A-Za-z](?:\s*\^\s*\{-1\})?)\s*\(\s*([a-df-hj-z])\s*\)\s*=")  # f(e) is a value
CONSTANT = re.compile(r"(?:[AK]|[Cc](?:_[01]|_\{1\})?)")  # of integration
TWO_CONSTANTS = re.compile(r"[AB]|[Cc]_(?:[12]|\{[12]\})")
PARAMETERS = frozenset("ackCK")  # of all solutions f(x) = cx
INTEGRATED = re.compile(rf"\+\s*{CONSTANT.pattern}$|(?:^|[-+=])\s*{CONSTANT.pattern}\s*e\s*\^")  # x^2 + C, y = Ce^x
FAMILY = re.compile(  # \\frac{\\pi}{3} + 2k\\pi or (2k+1)\\pi: no other letter, root, power or denominator
    r"(?=.*(?:\(2[kmn]|(?<![kmn])(?<![kmn] )\\pi(?!\s*[kmn])))"
    r"(?:[-+0-9\s,;()\[\]=]|/(?=[0-9])|(?:[kmn]|\(2[kmn][-+]1\))(?=\s*\\pi)|(?<=\\pi)\s*[kmn](?!\s*\\pi)|and|or|"
    r"\\(?:pi|frac|pm)(?![a-z])|\\?\{|\\?\}(?!\s*\{)|\}\s*\{[0-9]+\}|[a-zA-Z]\s*=|\\text\s*\{[^{}]*\})+"
)
SOME = (  # what a letter stands for, at the end of an answer
    r"(?<![-+=])[\s,;(|]+(?:(?:where|for|with|and) )?(?:(?:any|all|some) )?"
    r"(?:{0}s? ({2})|({2})\s*\\in\s*(?:\\mathbb\s*\{{{1}\}}|{1})\s*(?:[_^]\s*\{{?\s*[*+]?\s*\}}?)?|"
    r"({2}) (?:is|are|be) (?:an? |any )?{0}s?)"
)
ANY_INTEGER = re.compile(SOME.format("integer", "[NZ]", "[a-z]") + r"\s*(?:\)|\\\})?$")  # after \frac{\pi}{4} + k\pi
ANY_CONSTANT = re.compile(
    SOME.format("(?:arbitrary |real )*(?:constant|number)", "R", r"[A-Za-z](?:_\w)?(?: ?, ?[A-Za-z](?:_\w)?)*")
    + r"\)?$"
)
SET_OF = re.compile(r"^\\\{\s*(?:(\w)\s*[|:](?=\s*\1\s*=))?(?!.*\\\})")  # \{x | x = k\pi, k \in Z\}, its end removed
FOR_ALL = re.compile(r"(?<=\S)[\s,;(]*(?:\\text\{ ?)?(?:\\forall|for (?:all|any|every|each)(?![a-z]|[\s}]*[0-9])).*$")
LIMITED = re.compile(
    rf"=|\\(?:ne|setminus)(?![a-z])|\b(?:otherwise|rational|even|odd|primes?)\b|{DOUBT.pattern}", re.IGNORECASE
)
CHOICES = re.compile("A?B?C?D?E?F?")  # several letters of a question
CHOICE = re.compile(r"\(?([A-F])[).:]\)?(?: (.+))?")  # (B) 12
ROUGHLY = Fraction(1, 100)  # of the rounded value after \\approx


@lru_cache(maxsize=16384)
def same_answer(answer: str, truth: str) -> bool:
    """Return whether two normalized texts mean the same, up to the names of bound variables."""
    answer, truth = _chosen(answer, truth), _chosen(truth, answer)
    (answer, name, integers), (truth, truth_name, truth_integers) = map(_without_integer, (answer, truth))
    if name and truth_name and integers != truth_integers:
        return False  # of \mathbb{Z} and \mathbb{N}
    is_part = integers + truth_integers != "R" and (name or truth_name) == bounded_name(read(answer if name else truth))
    if bool(name) != bool(truth_name) and is_part:
        return False  # integers of an interval are not the interval
    answer, truth = _without_domain(answer, truth), _without_domain(truth, answer)
    renamed = _renamed(answer, truth, name, truth_name)
    spelled = [BINOMIAL.sub(r"\\binom{\1}{\2}", text) for text in (renamed, truth)]
    return same(read(answer), read(truth)) or (spelled != [answer, truth] and same(*map(read, spelled)))


def _chosen(text: str, other: str) -> str:
    """Write "(B) 12" as B beside a letter, and as 12 beside another text without a letter."""
    choice, letter = CHOICE.fullmatch(without_text(text)), other.strip("()")
    if not choice or any(doubt.search(choice[2] or "") for doubt in (LIMITED, CHOICE)):
        return text
    if len(letter) == 1 and letter.isalpha():
        return choice[1]
    return text if CHOICE.fullmatch(without_text(other)) else choice[2] or text


def _without_integer(text: str) -> tuple[str, str, str]:
    """Return a text without "k is an integer" at its end, k and Z; without "c is a constant", c and R."""
    plain = without_text(text)
    if match := ANY_CONSTANT.search(plain):
        names, others = (set(NAMES.findall(part)) for part in (match[match.lastindex or 0], plain[: match.start()]))
        return (plain[: match.start()], "".join(names), "R") if names <= others else (text, "", "")
    match = ANY_INTEGER.search(plain)
    if not match or match[match.lastindex or 0] not in NAMES.findall(plain[: match.start()]):
        return text, "", ""  # of [0, 1], x \in Z the last part is a condition
    integers = "positive" if re.search("[_^]", match[0]) else "N" if "N" in match[0] else "Z"
    return SET_OF.sub("", plain[: match.start()]), match[match.lastindex or 0], integers


def _without_domain(text: str, other: str) -> str:
    """Remove "for all x" that only one of the texts says."""
    remark = FOR_ALL.search(text)
    return text[: remark.start()] if remark and not FOR_ALL.search(other) and not LIMITED.search(remark[0]) else text


def _renamed(answer: str, truth: str, integer: str, truth_integer: str) -> str:
    """Name a function's argument, a constant of integration or an integer (called so, or of k\\pi) as in the truth."""
    named = [match for match in (FUNCTION.match(answer), FUNCTION.match(truth)) if match]
    found = (NAMES.findall(text.rpartition("=")[2]) for text in (answer, truth))
    names, truth_names = ({name for name in each if "_" in name or len(name) == 1} for each in found)
    old, new = names - truth_names, truth_names - names
    is_function = len(named) == 2 and named[0][1] == named[1][1]
    is_argument = is_function and named[0][2] != named[1][2]
    if is_argument:
        old, new = ({match[2]} for match in named)
    others = truth_names - new - {"e", "i"}
    if len(old) == len(new) == 2 and all(map(TWO_CONSTANTS.fullmatch, (*old, *new))) and others in map(set, "txyz"):
        both = dict(zip(sorted(old), sorted(new), strict=True))  # y = Ae^x + Be^{-x}
        return NAMES.sub(lambda match: both.get(match[0], match[0]), answer)
    if len(old) != 1 or len(new) != 1 or new & names:
        return answer
    (name,) = new
    # other letters are quantities, as the m and l of a pendulum
    is_integer = (name == truth_integer and old <= COUNTERS | {integer}) or (old == {integer} and not others)
    is_constant = all(map(CONSTANT.fullmatch, (*old, name))) and others in map(set, "txyz") and INTEGRATED.search(truth)
    is_factor = is_function and others == {named[1][2]} and old | new <= PARAMETERS
    is_free = is_argument or is_integer or is_constant or is_factor or (old <= COUNTERS and FAMILY.fullmatch(truth))
    return NAMES.sub(lambda match: name if match[0] in old else match[0], answer) if is_free else answer


def same(answer: Structure, truth: Structure) -> bool:
    """Return whether two structures mean the same."""
    if answer == truth:
        return True
    if (is_region(answer) or is_region(truth)) and (verdict := same_region(answer, truth)) is not None:
        return verdict
    if isinstance(answer, Relation) or isinstance(truth, Relation):
        return same_relation(answer, truth)
    opened = _opened(answer), _opened(truth)
    if opened != (answer, truth) and getattr(answer, "kind", "") != getattr(truth, "kind", ""):
        return same(*opened)  # {(1, 2)} for (1, 2)
    if isinstance(answer, Items) and isinstance(truth, Items):
        return same_items(answer, truth)
    return isinstance(answer, str) and isinstance(truth, str) and same_value(answer, truth)


def _opened(item: Structure) -> Structure:
    """Return the list A, C, D of ACD, the element of a set of one, [0, a) of 0 \\le x < a, and others as they are."""
    if isinstance(item, Items) and (item.kind == "in" or (item.kind == "{" and len(item.items) == 1)):
        return item.items[-1]
    return read(", ".join(item)) if isinstance(item, str) and CHOICES.fullmatch(item) else item


def same_items(answer: Items, truth: Items) -> bool:
    """Return whether two lists agree: tuples in order, sets and plain lists in any order; a set is not a tuple."""
    if {answer.kind, truth.kind} in ({"matrix", "()"}, {"matrix", "[]"}):  # (1, 2) for a column, [[1, 2], [3, 4]]
        answer, truth = _as_row(answer), _as_row(truth)
    if len(answer.items) != len(truth.items) or len(answer.items) > MAX_ITEMS:
        return False
    answer, truth = (item._replace(kind=",") if item.kind == "point" else item for item in (answer, truth))
    for named, bare in ((answer, truth), (truth, answer)):
        names = {*map(assigned_name, named.items)}
        is_named = len(names) > 1 and "" not in names and all(isinstance(item, str) for item in bare.items)
        if named.kind == "," and (bare.kind == "()" or (bare.kind in (",", "{") and is_named)):
            point, other = _point(named, bare), bare._replace(kind="()")
            return same(point, other) if named is answer else same(other, point)
    plain = _without_index(answer), _without_index(truth)
    if (plain[0] is answer) != (plain[1] is truth):
        answer, truth = plain
    if answer.kind == truth.kind and answer.kind not in (",", "{", "or", "and"):
        return all(map(same, answer.items, truth.items))
    is_list = len(truth.items) > 2  # [1, 2, 3] is a list, and no interval
    if {answer.kind, truth.kind} - {",", "{", *(["[]"] if is_list else [])}:
        return False
    left = list(truth.items)
    for item in answer.items:
        match = next((other for other in left if same(item, other)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _without_index(item: Items) -> Items:
    """Return x = 2, x = 3 for x_1 = 2, x_2 = 3, and other lists as they are."""
    named = [(assigned_name(one), one.sides[1]) for one in item.items if is_assignment(one) and "_" in one.sides[0]]
    is_one = len({name for name, _ in named}) == 1 and len(named) == len(item.items)
    return Items(",", tuple(Relation(sides, ("=",)) for sides in named)) if is_one else item


def _as_row(item: Items) -> Items:
    """Return a matrix as a tuple of its numbers, if it has one column or row, or of its rows."""
    if item.kind != "matrix":
        return item._replace(kind="()")
    rows = [row.items for row in item.items]
    cells = rows if len(rows) == 1 else [*zip(*rows, strict=False)]
    return Items("()", cells[0] if len(cells) == 1 else tuple(Items("[]", row) for row in rows))


def _point(named: Items, bare: Items) -> Items:
    """Return (3, 4) for x = 3, y = 4: beside a point in alphabetical order, beside a list in their own."""
    values = {item.sides[0]: read(item.sides[1]) for item in named.items if is_assignment(item)}
    # \phi is the last of spherical coordinates
    alphabetical = sorted(values, key=lambda name: (name == "\\phi", name.replace("\\ell", "l").lstrip("\\")))
    return Items("()", tuple(values[name] for name in (alphabetical if bare.kind == "()" else values)))


def same_relation(answer: Structure, truth: Structure) -> bool:
    """Return whether two equations or inequalities agree, or a value and an equation that names it."""
    if isinstance(answer, Relation) and isinstance(truth, Relation):
        names = answer.sides[0], truth.sides[0]
        is_named = same_value(*names) or _are_constant(answer) or {*names} == {"y", "f(x)"}  # 3 + 4 = 7 says x = 7
    else:
        is_named = not isinstance(truth, Relation) or names_value(truth.sides[0]) or _are_constant(truth)
    if is_named and any(same(a, b) for a in stated_values(answer) for b in stated_values(truth)):
        return True
    if not isinstance(truth, Relation):
        return False
    if isinstance(answer, Relation):
        if answer.signs == truth.signs:
            pairs = [*zip(answer.sides, truth.sides, strict=True)]
            if all(same_value(*pair) for pair in pairs[:-1]) and same(*map(read, pairs[-1])):
                return True
        if same_up_to_factor(answer, truth) or _is_solution(truth, answer):
            return True
    return _is_solution(answer, truth)


def _is_solution(solution: Structure, equation: Relation) -> bool:
    """Return whether y = f(x), or f(x) with one variable less, solves an equation that is linear in y."""
    name, formula = solution.sides if is_assignment(solution) else ("", str(solution))
    tree, difference = read_formula(formula), _difference(equation)
    asks_for_other = is_assignment(equation) and not name  # (y - 1)/2 is x, and y = 2x + 1 asks for y
    if not tree or not difference or equation.signs != ("=",) or not variables(tree) or asks_for_other:
        return False
    unknown = variables(difference) - variables(tree)
    if len(unknown) != 1 or not variables(tree) <= variables(difference) or name not in ("", *unknown):
        return False
    (name,) = unknown
    shifted = [substituted(difference, name, Node("add", (Node("var", leaf=name), number(n)))) for n in (-1, 1)]
    is_root = are_equal(substituted(difference, name, tree), number(0)) and not are_equal(difference, number(0))
    return is_root and are_equal(Node("add", tuple(shifted)), Node("mul", (number(2), difference)))


def stated_values(item: Structure) -> list[Structure]:
    """Return what an equation says the answer is: "27 + 48 = 75" says 75, "x = \\sqrt{2} \\approx 1.414" either.

    [] if its sides contradict each other, if it is not an equation, or is to be solved: 2x - 6 = 0, -x = 5.
    """
    if not isinstance(item, Relation):
        return [item]
    sides, signs = list(item.sides), item.signs
    if not {"=", "\\approx", "\\equiv"}.issuperset(signs) or "" in sides:
        return []
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        sides.reverse()  # 3 = x
    tree = None if names_value(sides[0]) else read_formula(sides[0])
    if tree and variables(tree):  # x^2 - 2x = 0, -x = 5, x + 1 = 5, x^3 = 5, x + y + 1 = 0
        is_one = len(variables(tree)) == 1
        parts = [part for part in nodes(tree) if part.op == "add" or (is_one and part is tree)]
        is_solved = not is_one or (sides[1:] != ["0"] and tree.op not in ("neg", "abs", "factorial", "ln"))
        if not is_solved or not all(variables(arg) for part in parts for arg in part.args):
            return []
    if not all(map(_is_plain, sides[:-1])) or any(map(_contradict, signs, sides, sides[1:])):
        return []
    if signs[-1] != "\\approx" or is_name(sides[-2]):
        return [read(sides[-1])]
    # of 6.4615 \\approx 6.46 only the last is stated, of 12\pi \\approx 38 the first: an integer is no rounding
    stated = sides[-1 if DECIMAL.fullmatch(sides[-2]) else -2 :]
    return [read(side) for side in stated if getattr(constant(side), "denominator", 0) != 1]


def _is_plain(text: str) -> bool:
    """Return whether a side is a formula, or words that name the quantity: "not x" is neither."""
    is_formula = names_value(text) or read_formula(text) is not None
    return not DOUBT.search(text) and (is_formula or not re.search(r"[0-9]|[(,]\s*-", text))


def _contradict(sign: str, left: str, right: str) -> bool:
    """Return whether two sides of an equation differ as numbers, or as formulas of the same variables."""
    a, b = read_formula(left), read_formula(right)
    if not a or not b or names_value(left) or variables(a) != variables(b) or (variables(a) and sign != "="):
        return False
    return not are_equal(a, b, Fraction(0) if sign == "=" else ROUGHLY)


def _are_constant(relation: Relation) -> bool:
    return all(constant(side) is not None for side in relation.sides)


def same_up_to_factor(answer: Relation, truth: Relation) -> bool:
    """Whether one's sides differ by a multiple of what the other's do: 2x + 4y = 6 is x + 2y = 3."""
    difference, truth_difference, sign = _difference(answer), _difference(truth), answer.signs[0]
    if not difference or not truth_difference or sign != truth.signs[0] or sign not in ("=", *INEQUALITIES):
        return False
    ratio = constant_ratio(difference, truth_difference)
    return ratio is not None and (sign in ("=", "\\ne") or (is_real(ratio) and ratio.real > 0))


def _difference(relation: Relation) -> Node | None:
    """Return the difference of two sides; None if they are more, or unreadable."""
    trees = list(filter(None, map(read_formula, relation.sides)))
    return Node("add", (trees[0], Node("neg", (trees[1],)))) if len(trees) == len(relation.sides) == 2 else None
