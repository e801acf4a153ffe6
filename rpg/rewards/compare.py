"""Whether two answers say the same: read into structures, compared kind by kind."""

from rpg.rewards.extract import MAX_ANSWER_CHARS
from rpg.rewards.kinds import (
    CONNECTORS,
    Items,
    Matrix,
    Region,
    Relation,
    Structure,
    Value,
    as_relation,
    is_assignment,
)
from rpg.rewards.normalize import normalize
from rpg.rewards.number import as_number
from rpg.rewards.structure import read
from rpg.rewards.value import compact, numbers_match, quantity, same_value

MAX_ITEMS = 40  # of a list, so that matching stays cheap


def answers_match(answer: str, truth: str, integers_only: bool = False) -> bool:
    """Whether the answer text of a response says what `truth` says.

    With `integers_only`, as for the toy task, nothing but the number itself counts.
    """
    if not answer or len(answer) > MAX_ANSWER_CHARS or len(truth) > MAX_ANSWER_CHARS:
        return False
    said, wanted = normalize(answer), normalize(truth)
    if not said:
        return False
    number, wanted_number = as_number(said), as_number(wanted)
    if number is not None and wanted_number is not None:  # most answers of the integer sets
        return numbers_match(number, wanted_number, "." in said or "." in wanted)
    if integers_only:
        said = quantity(said.rsplit("=", 1)[-1].strip()).value
        number = as_number(said)
        return number is not None and number == wanted_number
    return compact(said) == compact(wanted) or same(read(said), read(wanted))


def same(said: Structure, wanted: Structure) -> bool:
    """Whether two structures say the same."""
    if said == wanted:
        return True
    if isinstance(said, Relation) or isinstance(wanted, Relation):
        return same_relation(as_relation(said), as_relation(wanted))
    if _is_region(said) or _is_region(wanted):
        from rpg.rewards.region import same_region

        return same_region(said, wanted)
    if isinstance(said, Items) or isinstance(wanted, Items):
        return same_items(said, wanted)
    if isinstance(said, Matrix) and isinstance(wanted, Matrix):
        shapes = [[len(row) for row in matrix.rows] for matrix in (said, wanted)]
        return shapes[0] == shapes[1] and all(
            same_value(cell, other)
            for row, others in zip(said.rows, wanted.rows, strict=True)
            for cell, other in zip(row, others, strict=True)
        )
    return isinstance(said, Value) and isinstance(wanted, Value) and same_value(said.text, wanted.text)


def same_items(said: Structure, wanted: Structure) -> bool:
    """Whether two lists agree: tuples in order, sets and plain lists in any; a set is no tuple."""
    if not isinstance(said, Items) or not isinstance(wanted, Items):
        return False
    if len(said.items) != len(wanted.items) or len(said.items) > MAX_ITEMS:
        return False
    if said.kind == wanted.kind and said.kind not in (",", "{"):
        return all(same(one, other) for one, other in zip(said.items, wanted.items, strict=True))
    for one, other in ((said, wanted), (wanted, said)):
        if other.kind == "()" and one.kind == ",":
            return _same_coordinates(one, other)
    if {said.kind, wanted.kind} - {",", "{"}:
        return False
    left = list(wanted.items)
    for one in said.items:
        match = next((other for other in left if same(one, other)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_coordinates(named: Items, point: Items) -> bool:
    """Whether x = 3, y = 4 are the coordinates of the point (3, 4), by the alphabet."""
    values = {item.sides[0]: read(item.sides[1]) for item in named.items if is_assignment(item)}
    if not len(values) == len(named.items) == len(point.items):
        return False
    return all(same(values[name], item) for name, item in zip(sorted(values), point.items, strict=True))


def same_relation(said: Structure, wanted: Structure) -> bool:
    """Whether two equations or inequalities agree, or a value and one that gives it a name."""
    from rpg.rewards.relation import same_up_to_factor, stated_values

    if not isinstance(wanted, Relation):
        return isinstance(said, Relation) and any(same(read(text), wanted) for text in stated_values(said))
    if not isinstance(said, Relation):
        return is_assignment(wanted) and same(said, read(wanted.sides[1]))
    if said.signs == wanted.signs and len(said.sides) == len(wanted.sides):
        *left, last = said.sides
        *others, wanted_last = wanted.sides
        if all(map(same_value, left, others)) and same(read(last), read(wanted_last)):
            return True
    return same_up_to_factor(said, wanted)


def _is_region(item: Structure) -> bool:
    return isinstance(item, Region) or (isinstance(item, Items) and item.kind in CONNECTORS)
