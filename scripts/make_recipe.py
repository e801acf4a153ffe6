#!/usr/bin/env python3
"""Generate the launch scripts in recipe/rpg, and the list of data/README.md.

The grammar of the names lives here alone: the files are the registry that commands read.

name = A "_7b" ["_" B] ["_schedulefree"] ["_7binstruct"] ["_async"]
     | A "_4b" ["_" B] ["_noiterref"] ["_schedulefree"] "_" ("2k" | "4k" | "8k") ["_async"]
     | A "_cpu" ["_" B] ["_noiterref"] ["_schedulefree"] ["_smollm2"] ["_async"]

A is a method (`rpg` for all with a divergence), B its divergence, beta, form and clip. Files of removed names are not
deleted; the tests report them.

python scripts/make_recipe.py
"""

import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rpg.names import DIVERGENCES
from rpg.registry.datasets import DATASETS, DataSet
from rpg.registry.methods import FIGURES, ROWS, SHORT, Method, label_of, script_of

RECIPE = Path(__file__).resolve().parents[1] / "recipe" / "rpg"
ACTOR = "actor_rollout_ref.actor"

BETAS = ("1e-4", "1e-3")  # the first is the paper's, others are ablations
CLIPS = ("0.2_0.28", "0.1_0.1")  # the paper's first
UNNUMBERED_CLIP = "0.1_0.1"  # for names like rpg_7b_urkl1e-4_rf_clip_ppo, as in the release
IN_4B = ("ufkl", "urkl")  # the divergences with scripts for Qwen3-4B, those of the paper's tables
NEWER = ("dr_grpo", "gspo", "cispo", "dppo", "sapo", "kl_in_reward")  # of other papers; in 7b only table 8's model
ASYNCHRONOUS = ("grpo", "dapo", "rpg", "rpg_rf_clip_ppo", "rpg_rf")  # have asynchronous scripts (with URKL)
WITHOUT = ("rpg_rf_clip_dual", "rpg_rf_clip_hard")  # have no scripts
WITH_BETA = ("rfpp", "rfppb", "kl_in_reward")  # whose names say beta, besides those with a divergence

# parts of a name after B, by size: part -> the fields of Name that it sets
OPTIM = {"": {}, "schedulefree": {"optim": "schedulefree"}}
SCHEDULE = {"": {}, "async": {"schedule": "async"}}
REFERENCE = {"": {}, "noiterref": {"reference": "fixed"}}
PARTS: dict[str, list[dict[str, dict[str, str]]]] = {
    "7b": [OPTIM, {"": {}, "7binstruct": {"model": "qwen2.5-7b-instruct"}}, SCHEDULE],
    "4b": [REFERENCE, OPTIM, {context: {"context": context} for context in ("2k", "4k", "8k")}, SCHEDULE],
    "cpu": [REFERENCE, OPTIM, {"": {}, "smollm2": {"model": "smollm2"}}, SCHEDULE],
}
PLAIN_MODEL = {"7b": "qwen2.5-math-7b", "4b": "qwen3-4b", "cpu": "toy"}
SHOWN_MODEL = {  # entry of the Hydra group `model` -> in comments
    "qwen2.5-math-7b": "Qwen2.5-Math-7B",
    "qwen2.5-7b-instruct": "Qwen2.5-7B-Instruct",
    "qwen3-4b": "Qwen3-4B",
    "smollm2": "SmolLM2-135M-Instruct",
    "toy": "toy task",
}
# overrides of the cpu scripts by model
CPU = {
    "toy": ["profile=cpu", "model=toy", "dataset=toy"],
    "smollm2": ["profile=cpu_bf16", "model=smollm2", "dataset=small_sums"],
}
CPU_LR = {"toy": "3e-4", "smollm2": "1e-5"}


@dataclass(frozen=True)
class Name:
    """The parts of a name, as entries of the Hydra groups; None for a missing part.

    beta: rpg.kl_coef as written, "0" for RPG without KL.
    """

    method: str
    size: str
    divergence: str | None = None
    beta: str | None = None
    clip: str | None = None
    reference: str | None = None
    optim: str = "adamw"
    model: str | None = None
    context: str | None = None
    schedule: str = "sync"

    @property
    def label(self) -> str:
        """The method's label in tables."""
        return label_of(self.method, self.divergence or "") or ""

    @property
    def entry(self) -> str:
        """Entry of the Hydra group `model`."""
        return self.model or PLAIN_MODEL[self.size]

    @property
    def lr_7b(self) -> str | None:
        """Learning rate of a 7b script if the release's differs from the paper's 1e-6."""
        return "5e-7" if self.size == "7b" and self.method.startswith("rpg_rf") else None

    @property
    def has_clip(self) -> bool:
        """Whether the method's names say a clip."""
        return self.method.startswith("rpg_rf_clip")

    @property
    def pi_old(self) -> str:
        """Entry of the group `pi_old` of an asynchronous script: decoupled with a clip (docs/off-policy.md)."""
        return "behavior" if self.method == "rpg_rf" else "decoupled"

    @property
    def ablations(self) -> int | None:
        """How many of beta, clip and reference differ from the paper's; None without KL or clip numbers."""
        if self.beta == "0" or (self.has_clip and not self.clip):
            return None
        return sum((self.beta not in (None, BETAS[0]), self.clip not in (None, CLIPS[0]), bool(self.reference)))


def _objectives(method: Method) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every B of a method, and the fields of Name that it sets."""
    if not method.has_divergence:
        yield from ((beta, {"beta": beta}) for beta in BETAS) if method.name in WITH_BETA else [("", {})]
        return
    form = method.name.removeprefix("rpg")
    if not form:  # without KL any divergence works; the release uses UFKL at beta 0
        yield "", {"divergence": "ufkl", "beta": "0"}
    for divergence, beta in itertools.product(DIVERGENCES, BETAS):
        fields = {"divergence": divergence, "beta": beta}
        yield f"{divergence}{beta}{form}", fields
        if "clip" in form:
            yield from ((f"{divergence}{beta}{form}_{clip}", {**fields, "clip": clip}) for clip in CLIPS)


def names() -> dict[str, Name]:
    """Return every name that has a script."""
    made = {}
    in_figures = {script_of(label, figure, size) for figure in FIGURES for label in FIGURES[figure]
                  for size in ("", "cpu")}  # fmt: skip
    for size, method in itertools.product(PARTS, ROWS):
        first = "rpg" if method.has_divergence else method.name
        for chosen in itertools.product([(size, {})], _objectives(method), *(part.items() for part in PARTS[size])):
            fields: dict[str, str] = {}
            for _, part in chosen:
                fields |= part
            text = "_".join(filter(None, [first, *(written for written, _ in chosen)]))
            text = SHORT.get(text, text)
            name = Name(method.name, size, **fields)
            if text in in_figures or _has_script(name):
                made[text] = name
    return made


def _has_script(name: Name) -> bool:
    """Return whether a name that is no line of a figure has a script."""
    first_beta = name.beta in (None, "0", BETAS[0])
    plain = name.optim == "adamw" and name.model is None
    if name.method in WITHOUT or (name.reference and (not name.divergence or name.beta == "0")):  # nothing to fix
        return False
    if name.schedule == "async":
        main = name.ablations == 0 and name.divergence in (None, "urkl") and name.context in (None, "4k")
        return name.method in ASYNCHRONOUS and plain and main
    if name.size == "7b":  # the release's grid; of newer methods the rows of table 8
        of_table_8 = name.optim == "adamw" and name.model is not None
        return first_beta and (of_table_8 or name.method not in NEWER)
    if name.size == "4b":  # the paper's tables, and for RPG one ablation at a time
        allowed = [0, 1] if name.divergence in IN_4B else [] if name.divergence else [0]
        return plain and name.method != "rpg_rf" and name.ablations in allowed
    if not plain:  # the paper's method, once with each
        main = name.label == "RPG-REINFORCE-URKL" and name.clip == CLIPS[0] and name.beta == BETAS[0]
        return main and (name.optim == "adamw" or (name.model is None and not name.reference))
    return not name.reference and first_beta and (not name.has_clip or name.clip is not None)


def overrides(name: Name) -> list[str]:
    """Return the Hydra overrides of a name."""
    lr, optim = name.lr_7b, name.optim
    first = [f"model={name.entry}"]
    if name.size == "cpu":
        first = CPU[name.entry]
        if optim == "adamw":
            optim = name.entry  # the group `optim` has an entry per CPU model
        else:
            lr = CPU_LR[name.entry]
    rest = {
        "optim": optim,
        "context": name.context,
        "method": name.method,
        "rpg.divergence": name.divergence,
        "rpg.kl_coef": name.beta,
        "clip": name.clip or (UNNUMBERED_CLIP if name.has_clip else None),
        "reference": name.reference,
        f"{ACTOR}.optim.lr": lr,
        **({"schedule": name.schedule, "pi_old": name.pi_old} if name.schedule != "sync" else {}),
    }
    return [*first, *(f"{key}={value}" for key, value in rest.items() if value is not None)]


def script(name: Name) -> str:
    """Return a launch script."""
    clip = name.clip or (UNNUMBERED_CLIP if name.has_clip else None)
    about = [
        "RPG without KL" if name.beta == "0" else name.label,
        name.beta not in (None, "0") and f"beta {name.beta}",
        clip and f"clip ({clip.replace('_', ', ')})",
        name.reference and "reference fixed at the initial model",
    ]
    where = [
        SHOWN_MODEL[name.entry],
        name.context and f"{name.context.upper()} context",
        name.size == "cpu" and "CPU profile",
        name.optim == "schedulefree" and "schedule-free AdamW",
        name.schedule == "async" and "asynchronous",
    ]
    lines = ["#!/usr/bin/env bash", f"# {', '.join(filter(None, about))}; {', '.join(filter(None, where))}"]
    if name.lr_7b:
        lines.append(f"# lr: {name.lr_7b} in the release's REINFORCE scripts, 1e-6 in the paper")
    lines.append("""script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \\""")
    words = " ".join([*overrides(name), '"$@"'])
    wrapped = textwrap.wrap(words, 110, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines) + "\n    " + " \\\n    ".join(wrapped) + "\n"


def data_sets() -> str:
    """Return the list of data sets; not the rows that only have spellings."""
    return "\n".join([*(_data_set(row) for row in DATASETS if row.repository or row.split == "both"), ""])


def _data_set(row: DataSet) -> str:
    split = row.hub_split if row.repository and row.split != "both" else None
    place = ", ".join(filter(None, (row.repository, row.config, split))) or "generated"
    rows = f", {row.repeat} rows each" if row.repeat != 1 else ""
    return f"- {' and '.join(row.files)}: {row.problems} problems{rows}; {place}; `{row.data_source}`, {row.answers}"


def files() -> dict[Path, str]:
    """Return every generated file and its content; of data/README.md only the list is generated."""
    page = RECIPE.parents[1] / "data" / "README.md"
    begin, end = "<!-- data sets: made by scripts/make_recipe.py -->\n", "<!-- end -->"
    listed = re.sub(rf"(?s)({begin}).*?(?={end})", lambda found: found[1] + data_sets(), page.read_text())
    return {**{RECIPE / name.size / f"run_{text}.sh": script(name) for text, name in names().items()}, page: listed}


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
        if path.suffix == ".sh":
            path.chmod(0o755)
