"""Equations and inequalities: what value they state, and whether two of them say the same."""

import re

from rpg.rewards.evaluate import Undefined, value
from rpg.rewards.grammar import Node, Unreadable
from rpg.rewards.identity import are_close, are_near, constant_ratio, is_real, variables
from rpg.rewards.kinds import Relation, is_name
from rpg.rewards.normalize import DOUBT
from rpg.rewards.value import as_node

FLIPPED = {">": ("<", -1), "\\ge": ("\\le", -1)}


def stated_values(relation: Relation) -> list[str]:
    """Return what an equation says the answer is: "27 + 48 = 75" says 75, "x = \\sqrt{2} \\approx 1.414" either.

    [] where its sides contradict each other, or where it is no equation.
    """
    sides, signs = list(relation.sides), relation.signs
    if not set(signs) <= {"=", "\\approx"} or "" in sides:
        return []
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        sides.reverse()  # 3 = x
    if not all(_is_plain(side) for side in sides[:-1]):
        return []
    numbers = [_constant(side) for side in sides]
    try:
        for sign, left, right in zip(signs, numbers, numbers[1:], strict=False):
            if left is None or right is None:
                continue
            if not (are_near(left, right) if sign == "\\approx" else are_close(left, right)):
                return []
    except Unreadable:  # too large to tell
        return []
    exact_too = signs[-1] == "\\approx" and not is_name(sides[-2])
    return sides[-2:] if exact_too else sides[-1:]


def _is_plain(text: str) -> bool:
    """Whether a side is a formula, or words that name what is asked for: "not x" is neither."""
    if DOUBT.search(text):
        return False
    try:
        return bool(as_node(text))
    except Unreadable:
        return not re.search("[0-9]", text)


def _constant(text: str):
    """Return the value of a formula without variables, None of anything else."""
    try:
        node = as_node(text)
        return None if variables(node) else value(node, {})
    except (Unreadable, Undefined):
        return None


def same_up_to_factor(said: Relation, wanted: Relation) -> bool:
    """Whether one's sides differ by a multiple of what the other's do: 2x + 4y = 6 is x + 2y = 3."""
    if len(said.sides) != 2 or len(wanted.sides) != 2:
        return False
    (sign, direction), (wanted_sign, wanted_direction) = (
        FLIPPED.get(relation.signs[0], (relation.signs[0], 1)) for relation in (said, wanted)
    )
    if sign != wanted_sign or sign not in ("=", "<", "\\le", "\\ne"):
        return False
    try:
        ratio = constant_ratio(_difference(said), _difference(wanted))
    except Unreadable:
        return False
    if ratio is None or sign in ("=", "\\ne"):
        return ratio is not None
    return is_real(ratio) and ratio.real * direction * wanted_direction > 0


def _difference(relation: Relation) -> Node:
    left, right = map(as_node, relation.sides)
    return Node("add", (left, Node("neg", (right,))))
