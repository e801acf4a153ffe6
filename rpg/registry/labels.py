"""Labels of runs' methods in tables, their order, and how they are drawn."""

import itertools
from collections import Counter
from typing import Any, get_args

from rpg.names import DIVERGENCES
from rpg.registry import scripts
from rpg.registry.methods import (
    AGGREGATION,
    DIVERGENCE_COLOURS,
    DIVIDED,
    ESTIMATOR,
    FILTER_GROUPS,
    KL_IN_REWARD,
    LOSS,
    ROWS,
    Dash,
    Look,
    Method,
)

# what a method's settings leave out, where leaving it out says something
USUAL = {DIVIDED: True, KL_IN_REWARD: False}

# every label and its divergence, in the order of tables
LABELS: dict[str, tuple[Method, str | None]] = {
    row.label.format(D=divergence and divergence.upper()): (row, divergence)
    for row in ROWS
    for divergence in (DIVERGENCES if row.has_divergence else [None])
}
BASELINES = tuple(label for label, (row, _) in LABELS.items() if not row.has_divergence)
METHODS = tuple(label for label in LABELS if "(" not in label)  # without variants
DASHES: tuple[Dash, ...] = get_args(Dash)
OTHER_COLOURS = ("#17becf", "#bcbd22", "#e377c2", "#393b79", "#637939", "#843c39")


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


def _value(config: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None  # type: ignore[assignment]
    return config


def method_of_config(config: dict[str, Any]) -> str | None:
    """Return the label of a resolved configuration's method, or None if no method of the table fits.

    A method fits by its loss, estimator, filter, and what else tells it from another. Without such a method the first
    with this loss and estimator counts, then that with this RPG loss.
    """
    loss, filtered = (LOSS, ESTIMATOR), (LOSS, ESTIMATOR, FILTER_GROUPS)
    exact = (*filtered, DIVIDED, AGGREGATION, KL_IN_REWARD)
    actual = {key: _value(config, key) for key in exact}
    actual[LOSS] = actual[LOSS] or "vanilla"
    for key, usual in USUAL.items():
        if actual[key] is None:
            actual[key] = usual
    for keys in (exact, filtered, loss, (LOSS,)):
        for label, (row, divergence) in LABELS.items():
            settings = {**(USUAL if keys == exact else {}), **row.resolved_settings(divergence)}
            fits = all(settings.get(key, actual[key]) == actual[key] for key in keys)
            if fits and (len(keys) > 1 or row.has_divergence):
                return label
    return None


def method_of_name(name: str) -> str | None:
    """Return the label of the launch script with this name, or None."""
    script = scripts.names().get(name)
    return script.label if script else None


def looks_of(labels: list[str]) -> dict[str, Look]:
    """Return each label's look: that of its method, or solid lines of other colours for labels without a method.

    Labels of one method with different settings share its colour and get different dashes, then paler colours.
    """
    other_colours = itertools.cycle(OTHER_COLOURS)
    count = Counter[str]()
    looks: dict[str, Look] = {}
    for label in sorted(set(labels), key=lambda label: (label != base_method(label), order_of(label))):
        method = LOOKS.get(base := base_method(label))
        if method is None:
            looks[label] = Look(next(other_colours), "-")
            continue
        dashes: list[Dash] = [method.dash, *(dash for dash in DASHES if dash != method.dash)]
        looks[label] = Look(_paler(method.colour, count[base] // len(DASHES)), dashes[count[base] % len(DASHES)])
        count[base] += 1
    return looks


def _paler(colour: str, times: int) -> str:
    """Return a colour of the form #rrggbb, made paler `times` times."""
    channels = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - channel) * 0.55**times):02x}" for channel in channels)
