"""What tables call a run's method, in which order, and how it is drawn."""

import re
from typing import Any

from rpg.methods.registry import DIVERGENCE_COLOURS, LOSS, ROWS, Dash, Look, Method
from rpg.objectives.spec import DIVERGENCE_NAMES

# Every label and its divergence, in the order of tables.
LABELS: dict[str, tuple[Method, str | None]] = {
    row.label.format(D=divergence and divergence.upper()): (row, divergence)
    for row in ROWS
    for divergence in (DIVERGENCE_NAMES if row.has_divergence else [None])
}
BASELINES = tuple(label for label, (row, _) in LABELS.items() if not row.has_divergence)
METHODS = tuple(label for label in LABELS if "(" not in label)  # without variants
OTHER_COLOURS = ("#17becf", "#bcbd22", "#e377c2", "#393b79", "#637939", "#843c39")


def _look(row: Method, divergence: str | None) -> Look:
    if divergence is None:
        return row.look
    return Look(DIVERGENCE_COLOURS[divergence][family(row.label) == "RPG-REINFORCE"], row.look.dash)


def family(label: str) -> str:
    """RPG-REINFORCE, RPG or baseline: what the paper marks its rows by."""
    if label.startswith("RPG-REINFORCE"):
        return "RPG-REINFORCE"
    return "RPG" if label.startswith("RPG") else "baseline"


LOOKS = {label: _look(*LABELS[label]) for label in METHODS}


def base_method(label: str) -> str:
    """A label without its settings or variant: "RPG-URKL (lr 5e-7)" is RPG-URKL."""
    return label.split(" (")[0]


def order_of(label: str) -> tuple[int, str]:
    """Sort key: the order of tables, unknown labels behind."""
    base = base_method(label)
    return (METHODS.index(base) if base in METHODS else len(METHODS), label)


def _value(config: dict[str, Any], key: str) -> Any:
    for name in key.split("."):
        config = config.get(name) if isinstance(config, dict) else None  # type: ignore[assignment]
    return config


def method_of_config(config: dict[str, Any]) -> str | None:
    """The label of the method that a resolved configuration runs; None if no method of the table fits."""
    loss = _value(config, LOSS) or "vanilla"
    for label, (row, divergence) in sorted(LABELS.items(), key=lambda item: -len(item[1][0].known_by)):
        wanted = {LOSS: "vanilla", **{key: row.settings[key] for key in row.known_by}}
        divergence = divergence or row.settings.get("rpg.divergence")
        wanted[LOSS] = wanted[LOSS].replace("${rpg.divergence}", divergence or "")
        if loss == wanted.pop(LOSS) and all(_value(config, key) == value for key, value in wanted.items()):
            return label
    return None


def method_of_name(name: str) -> str | None:
    """The label of the method that a run's name states by the grammar of script names; None if it states none."""
    longest_first = sorted((row.name for row in ROWS), key=len, reverse=True)
    baselines = "|".join(method for method in longest_first if not method.startswith("rpg"))
    forms = "|".join(method.removeprefix("rpg") for method in longest_first if method.startswith("rpg"))
    divergences = "|".join(sorted(DIVERGENCE_NAMES, key=len, reverse=True))
    found = re.search(
        rf"(?:^|[_/])(?:(?P<baseline>{baselines})|rpg_.*?(?P<divergence>{divergences})[\d.e-]*(?P<form>{forms}))(?=_|$)",
        name,
    )
    if found is None:
        return None
    method = found["baseline"] or f"rpg{found['form']}"
    [row] = [row for row in ROWS if row.name == method]
    return row.label.format(D=(found["divergence"] or "").upper())


def looks_of(labels: list[str]) -> dict[str, Look]:
    """How each label is drawn: a method's own look, solid lines of further colours for labels without a method.

    Labels of one method with different settings share its colour and take different dashes.
    """
    dashes: tuple[Dash, ...] = ("-", "--", ":", "-.")
    looks: dict[str, Look] = {}
    used: dict[str, int] = {}
    others = 0
    plain_first = sorted(set(labels), key=lambda label: (label != base_method(label), order_of(label)))
    for label in plain_first:
        base = base_method(label)
        if base in LOOKS:
            count = used.get(base, 0)
            order = sorted(dashes, key=lambda dash: dash != LOOKS[base].dash)  # its own first
            looks[label] = Look(LOOKS[base].colour, order[count % len(order)])
            used[base] = count + 1
        else:
            looks[label] = Look(OTHER_COLOURS[others % len(OTHER_COLOURS)], "-")
            others += 1
    return looks
