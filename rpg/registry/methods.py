"""The methods in the order of tables: label, look, and the scripts that train the paper's rows.

What a method sets stands in recipe/rpg/config/method/NAME.yaml alone, which also records it as rpg.method.
"""

from dataclasses import dataclass
from typing import Literal

from rpg.names import DIVERGENCES

Dash = Literal["-", "--", ":", "-."]


@dataclass(frozen=True)
class Look:
    """How a line is drawn."""

    colour: str
    dash: Dash


@dataclass(frozen=True)
class Method:
    """One method: an entry of the Hydra group `method`.

    Attributes:
        name: the entry.
        label: the paper's name in tables. {D} is the divergence. Parentheses contain a variant, which is drawn like the
            method without it.
        look: colour and dash; with divergences the colour is the divergence's.
        script: the name of its row's script; {size} and {d} are folder and divergence. "" without a row.
        beside: whether `rpg reproduce` offers it in addition to the paper's rows.
    """

    name: str
    label: str
    look: Look
    script: str = ""
    beside: bool = False

    @property
    def has_divergence(self) -> bool:
        """Whether the method has one variant per divergence."""
        return "{D}" in self.label


RF = "RPG-REINFORCE-{D}"
ROWS = (
    Method("grpo", "GRPO", Look("#7f7f7f", "-."), "grpo_{size}"),
    Method("grpo_corrected", "GRPO-corrected", Look("#00868b", "-."), "grpo_corrected_{size}", beside=True),
    Method("rfpp", "REINFORCE++", Look("#b5a642", "-."), "rfpp_{size}_1e-4"),
    Method("rfppb", "REINFORCE++-Baseline", Look("#8c564b", "-."), "rfppb_{size}_1e-4"),
    Method("dapo", "DAPO", Look("#111111", ":"), "dapo_{size}"),
    Method("dr_grpo", "Dr. GRPO", Look("#546e7a", "-."), "dr_grpo_{size}", beside=True),
    Method("gspo", "GSPO", Look("#31a354", "-."), "gspo_{size}", beside=True),
    Method("cispo", "CISPO", Look("#d6a400", "-."), "cispo_{size}", beside=True),
    Method("dppo", "DPPO-TV", Look("#5c6bc0", "-."), "dppo_{size}", beside=True),
    Method("sapo", "SAPO", Look("#ad1457", "-."), "sapo_{size}", beside=True),
    Method("kl_in_reward", "KL in reward", Look("#a1887f", "-."), "kl_in_reward_{size}_1e-4", beside=True),
    Method("rpg", "RPG-{D}", Look("", "--"), "rpg_{size}_{d}1e-4"),
    Method("rpg_rf_clip_ppo", RF, Look("", "-"), "rpg_{size}_{d}1e-4_rf_clip_ppo_0.2_0.28"),
    Method("rpg_rf_clip_dual", f"{RF} (dual-clip weight)", Look("", "-")),
    Method("rpg_rf_clip_hard", f"{RF} (hard clip)", Look("", "-")),
    Method("rpg_rf", f"{RF} (no clip)", Look("", "-")),
)
METHODS = {method.name: method for method in ROWS}
# every label and its divergence, in the order of tables
LABELS: dict[str, tuple[Method, str | None]] = {
    row.label.format(D=divergence and divergence.upper()): (row, divergence)
    for row in ROWS
    for divergence in (DIVERGENCES if row.has_divergence else [None])
}
NAMES = tuple(label for label in LABELS if "(" not in label)  # without variants

# colours of a divergence: differentiable losses, REINFORCE losses
DIVERGENCE_COLOURS = {
    "fkl": ("#66c2a5", "#1b7a5a"),
    "rkl": ("#c994e0", "#7b3294"),
    "ufkl": ("#6baed6", "#08519c"),
    "urkl": ("#fd8d3c", "#d62728"),
}

# the paper's tables of results: folder and the end of their scripts' names
TABLES: dict[int | str, tuple[str, str]] = {
    3: ("4b", "_8k"),
    5: ("4b", "_4k"),
    6: ("4b", "_2k"),
    7: ("4b", "_4k"),
    8: ("7b", "_7binstruct"),
    "figure8": ("4b", "_2k"),
    "figure9": ("4b", "_4k"),
}
# the lines of the figures of ablations: label -> script
CLIPPED = "rpg_{size}_%s_rf_clip_ppo_%s"
FIGURES: dict[int | str, dict[str, str]] = {
    "figure8": {
        f"RPG-REINFORCE-{d.upper()} (clip {clip})": CLIPPED % (f"{d}1e-4", clip)
        for clip in ("0.1_0.1", "0.2_0.28")
        for d in ("ufkl", "urkl")
    },
    "figure9": {
        "RPG-REINFORCE-UFKL (beta 1e-4)": CLIPPED % ("ufkl1e-4", "0.2_0.28"),
        "RPG-REINFORCE-UFKL (beta 1e-3)": CLIPPED % ("ufkl1e-3", "0.2_0.28"),
        "RPG-REINFORCE-UFKL (beta 1e-3 noiterref)": CLIPPED % ("ufkl1e-3", "0.2_0.28") + "_noiterref",
    },
}
SHORT = {"dapo_7b_7binstruct": "dapo_7binstruct"}  # the release's name of this script


def script_of(label: str, table: int | str, size: str = "") -> str:
    """Return the name of the script of a row in a table or figure of the paper; size cpu: of its toy run.

    Raises KeyError for an unknown label or table.
    """
    folder, end = TABLES[table]
    if table in FIGURES:
        script = FIGURES[table][label]
    else:
        row, divergence = LABELS[label]
        script = row.script.replace("{d}", divergence or "")
    name = script.format(size=size or folder) + ("" if size == "cpu" else end)
    return SHORT.get(name, name)


def label_of(method: str | None, divergence: str) -> str | None:
    """Return a method's name in tables: urkl makes RPG-URKL of rpg; None for none of these methods."""
    return METHODS[method].label.format(D=divergence.upper()) if method in METHODS else None


def _look(label: str, row: Method, divergence: str | None) -> Look:
    if divergence is None:
        return row.look
    differentiable, reinforce = DIVERGENCE_COLOURS[divergence]
    return Look(reinforce if label.startswith("RPG-REINFORCE") else differentiable, row.look.dash)


LOOKS = {label: _look(label, *LABELS[label]) for label in NAMES}


def base_method(label: str) -> str:
    """Return a label without settings or variant: "RPG-URKL (lr 5e-7)" becomes RPG-URKL."""
    return label.split(" (")[0]


def order_of(label: str) -> tuple[int, str]:
    """Return a sort key: the order of tables, unknown labels last."""
    base = base_method(label)
    return (NAMES.index(base) if base in NAMES else len(NAMES), label)
