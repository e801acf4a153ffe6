"""How the rows of a table are drawn: colours and dashes that do not depend on the other rows, and scales of sweeps."""

import itertools
import math
import re
from collections.abc import Iterable
from typing import get_args

from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb

from rpg.registry.labels import LOOKS, base_method, order_of
from rpg.registry.methods import Dash, Look

DASHES: tuple[Dash, ...] = get_args(Dash)
SCALE = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b919")  # viridis, without its lightest yellow
COLOURS = LinearSegmentedColormap.from_list("", SCALE)
ONE_SETTING = re.compile(r"(?P<method>.+) \((?P<setting>\S+) (?P<value>[-+.\de]+)\)")
OTHER_COLOURS = ("#17becf", "#bcbd22", "#e377c2", "#393b79", "#637939", "#843c39")


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
            looks |= {label: Look(to_hex(COLOURS(place)), dash) for label, place in places.items()}
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


def _paler(colour: str) -> str:
    """Return a paler colour of the form #rrggbb."""
    red, green, blue = (1 - (1 - channel) * 0.55 for channel in to_rgb(colour))
    return to_hex((red, green, blue))
