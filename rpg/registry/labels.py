"""Labels of runs' methods in tables, their order, and how they are drawn."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from rpg.names import DIVERGENCES
from rpg.registry import scripts
from rpg.registry.methods import DIVERGENCE_COLOURS, ROWS, Dash, Look, Method

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
DASHES: tuple[Dash, ...] = get_args(Dash)
SCALE = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b919")  # viridis, without its lightest yellow
ONE_SETTING = re.compile(r"(?P<method>.+) \((?P<setting>\S+) (?P<value>[-+.\de]+)\)")
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


def looks_of(labels: list[str]) -> dict[str, Look]:
    """Return each label's look: that of its method, or solid lines of other colours for labels without a method.

    Labels of one method with different settings share its colour and get different dashes, then a paler colour. More
    labels of one method get a scale of colours, by the setting that differs (`scale_of`) or by order.
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(set(labels), key=lambda label: (label != base_method(label), order_of(label))):
        groups.setdefault(base_method(label) if base_method(label) in LOOKS else "", []).append(label)
    looks: dict[str, Look] = {}
    for base, members in groups.items():
        scaled = [label for label in members if label != base]
        if not base and len(scaled) <= len(OTHER_COLOURS):
            looks |= {label: Look(colour, "-") for label, colour in zip(scaled, OTHER_COLOURS, strict=False)}
        elif base and len(members) <= 2 * len(DASHES):
            method = LOOKS[base]
            dashes: list[Dash] = [method.dash, *(dash for dash in DASHES if dash != method.dash)]
            shades = itertools.product([method.colour, _paler(method.colour)], dashes)
            looks |= {label: Look(*shade) for label, shade in zip(members, shades, strict=False)}
        else:
            places = places_of(scaled)
            looks |= {label: LOOKS[base] for label in members if label == base}
            dash = LOOKS[base].dash if base else "-"
            looks |= {label: Look(_of_scale(place), dash) for label, place in places.items()}
    return looks


def scale_of(labels: list[str]) -> tuple[str, dict[str, float]] | None:
    """Return the setting in which labels differ and its values, or None if they differ by more than one number."""
    matches = {label: ONE_SETTING.fullmatch(label) for label in labels}
    found = {label: match for label, match in matches.items() if match}
    if len(found) < len(labels) or len({(match["method"], match["setting"]) for match in found.values()}) != 1:
        return None
    return next(iter(found.values()))["setting"], {label: float(match["value"]) for label, match in found.items()}


def places_of(labels: list[str]) -> dict[str, float]:
    """Return each label's place on a scale from 0 to 1: by its value (or its logarithm) or its order."""
    scale = scale_of(labels)
    values = scale[1] if scale else {label: float(number) for number, label in enumerate(labels)}
    if is_logarithmic(values.values()):
        values = {label: math.log(value) for label, value in values.items()}
    low, high = min(values.values()), max(values.values())
    return {label: (value - low) / ((high - low) or 1.0) for label, value in values.items()}


def is_logarithmic(values: Iterable[float]) -> bool:
    """Return whether the values of a scale differ so widely that their logarithms are shown."""
    values = list(values)
    return min(values) > 0 and max(values) > 20 * min(values)


def _of_scale(place: float) -> str:
    """Return the colour at a place from 0 to 1, by linear interpolation between those of SCALE."""
    part = place * (len(SCALE) - 1)
    first = min(int(part), len(SCALE) - 2)
    pairs = zip(_channels(SCALE[first]), _channels(SCALE[first + 1]), strict=True)
    return "#" + "".join(f"{round(low + (part - first) * (high - low)):02x}" for low, high in pairs)


def _paler(colour: str) -> str:
    """Return a paler colour of the form #rrggbb."""
    return "#" + "".join(f"{round(255 - (255 - channel) * 0.55):02x}" for channel in _channels(colour))


def _channels(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
