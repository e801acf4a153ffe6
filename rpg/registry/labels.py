"""Labels of runs' methods in tables, their order, and how the methods are drawn."""

from collections.abc import Mapping
from typing import Any

from rpg.names import DIVERGENCES
from rpg.registry import scripts
from rpg.registry.methods import DIVERGENCE_COLOURS, ROWS, Look, Method

# what a method's settings leave out, where leaving it out says something
USUAL = {"divided": True, "kl_in_reward": False}

# every label and its divergence, in the order of tables
LABELS: dict[str, tuple[Method, str | None]] = {
    row.label.format(D=divergence and divergence.upper()): (row, divergence)
    for row in ROWS
    for divergence in (DIVERGENCES if row.has_divergence else [None])
}
METHODS = tuple(label for label in LABELS if "(" not in label)  # without variants
ESTIMATORS = frozenset(row.resolved_settings().get("estimator") for row in ROWS)


def family(label: str) -> str:
    """Return RPG-REINFORCE, RPG or baseline, the paper's marks of rows."""
    if label.startswith("RPG-REINFORCE"):
        return "RPG-REINFORCE"
    return "RPG" if label.startswith("RPG") else "baseline"


def _look(label: str, row: Method, divergence: str | None) -> Look:
    if divergence is None:
        return row.look
    return Look(DIVERGENCE_COLOURS[divergence][family(label) == "RPG-REINFORCE"], row.look.dash)


LOOKS = {label: _look(label, *LABELS[label]) for label in METHODS}


def base_method(label: str) -> str:
    """Return a label without settings or variant: "RPG-URKL (lr 5e-7)" becomes RPG-URKL."""
    return label.split(" (")[0]


def order_of(label: str) -> tuple[int, str]:
    """Return a sort key: the order of tables, unknown labels last."""
    base = base_method(label)
    return (METHODS.index(base) if base in METHODS else len(METHODS), label)


def method_of(settings: Mapping[str, Any]) -> str | None:
    """Return the label of a configuration's method, or None if no method of the table fits.

    A method fits by its loss, estimator, filter, and what else tells it from another. Without such a method the first
    with this loss and estimator counts, then that with this RPG loss. An RPG loss with an estimator that no method has,
    such as the user's, is labelled by both.

    settings: by the names of rpg/config/keys.py; None for a key that the configuration lacks.
    """
    loss, filtered = ("loss", "estimator"), ("loss", "estimator", "filters")
    exact = (*filtered, "divided", "aggregation", "kl_in_reward")
    actual = {name: settings.get(name) for name in exact}
    actual["loss"] = actual["loss"] or "vanilla"
    for name, usual in USUAL.items():
        if actual[name] is None:
            actual[name] = usual
    for names in (exact, filtered, loss, ("loss",)):
        for label, (row, divergence) in LABELS.items():
            has = {**(USUAL if names == exact else {}), **row.resolved_settings(divergence=divergence)}
            fits = all(has.get(name, actual[name]) == actual[name] for name in names)
            if fits and (len(names) > 1 or row.has_divergence):
                foreign = actual["estimator"] not in (None, *ESTIMATORS)
                return f"{actual['estimator']} + {actual['loss']}" if foreign else label
    return None


def method_of_name(name: str) -> str | None:
    """Return the label of the launch script with this name, or None."""
    script = scripts.names().get(name)
    return script.label if script else None
