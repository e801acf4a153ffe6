"""How the rows of a table are drawn: colours and dashes that do not depend on the other rows."""

from typing import get_args

from matplotlib.colors import LinearSegmentedColormap, to_hex

from rpg.registry.labels import LOOKS, base_method, order_of
from rpg.registry.methods import Dash, Look

DASHES: tuple[Dash, ...] = get_args(Dash)
SCALE = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b919")  # viridis, without its lightest yellow
COLOURS = LinearSegmentedColormap.from_list("", SCALE)
OTHER_COLOURS = ("#17becf", "#bcbd22", "#e377c2", "#393b79", "#637939", "#843c39")


def looks_of(labels: list[str]) -> dict[str, Look]:
    """Return each label's look: that of its method, or solid lines of other colours for labels without a method.

    Labels of one method with different settings share its colour and get different dashes. More labels of one method
    get a scale of colours, by order.
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(set(labels), key=lambda label: (label != base_method(label), order_of(label))):
        groups.setdefault(base_method(label) if base_method(label) in LOOKS else "", []).append(label)
    looks: dict[str, Look] = {}
    for base, members in groups.items():
        scaled = [label for label in members if label != base]
        if not base and len(scaled) <= len(OTHER_COLOURS):
            looks |= {label: Look(colour, "-") for label, colour in zip(scaled, OTHER_COLOURS, strict=False)}
        elif base and len(members) <= len(DASHES):
            method = LOOKS[base]
            dashes: list[Dash] = [method.dash, *(dash for dash in DASHES if dash != method.dash)]
            looks |= {label: Look(method.colour, dash) for label, dash in zip(members, dashes, strict=False)}
        else:
            looks |= {label: LOOKS[base] for label in members if label == base}
            dash, last = LOOKS[base].dash if base else "-", len(scaled) - 1
            looks |= {label: Look(to_hex(COLOURS(number / last)), dash) for number, label in enumerate(scaled)}
    return looks
