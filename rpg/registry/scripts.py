"""Names of runs: their grammar, the overrides of each name, and the settings that a name fixes.

name = A "_7b" ["_" B] ["_schedulefree"] ["_7binstruct"] ["_async"]
     | A "_4b" ["_" B] ["_noiterref"] ["_schedulefree"] "_" ("2k" | "4k" | "8k") ["_async"]
     | A "_" MODEL ["_" B] ["_lora"]
     | A "_cpu" ["_" B] ["_noiterref"] ["_schedulefree"] ["_smollm2"] ["_async"]

A is a method (`rpg` for all with a divergence), B its divergence, beta, form and clip (rpg/registry/methods.py).
MODEL is one of SMALL, the models for one GPU.
`rpg train NAME` starts a name. Those of FOLDERS also have a launch script.
All names are enumerated, so a name is looked up, not parsed.
"""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rpg.diagnostics import did_you_mean
from rpg.names import DIVERGENCES
from rpg.registry.methods import BETAS, FIGURES, IN_4B, METHODS, TABLES, Method

ACTOR = "actor_rollout_ref.actor"  # in the text of launch scripts

# parts of a name after B, by size: part -> the fields of ScriptName that it sets
OPTIM = {"": {}, "schedulefree": {"optim": "schedulefree"}}
SCHEDULE = {"": {}, "async": {"schedule": "async"}}
REFERENCE = {"": {}, "noiterref": {"reference": "fixed"}}
PARTS: dict[str, list[dict[str, dict[str, str]]]] = {
    "7b": [OPTIM, {"": {}, "7binstruct": {"model": "qwen2.5-7b-instruct"}}, SCHEDULE],
    "4b": [REFERENCE, OPTIM, {context: {"context": context} for context in ("2k", "4k", "8k")}, SCHEDULE],
    "1gpu": [{"": {}, "lora": {"adapter": "lora"}}],
    "cpu": [REFERENCE, OPTIM, {"": {}, "smollm2": {"model": "smollm2"}}, SCHEDULE],
}
FOLDERS = ("7b", "4b", "cpu")  # sizes with launch scripts, recipe/rpg/<size>/run_<name>.sh
SHORT = {"dapo_7b_7binstruct": "dapo_7binstruct"}  # the release's shorter name of this script
UNNUMBERED_CLIP = "0.1_0.1"  # for names like rpg_7b_urkl1e-4_rf_clip_ppo, as in the release

SMALL = {  # models of the size 1gpu: entry of the Hydra group `model` -> name on the hub
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B",
    "qwen2.5-0.5b-instruct": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B",
    "qwen2.5-1.5b-instruct": "Qwen/Qwen2.5-1.5B-Instruct",
}
# parts of a name after the method, by size: part -> the fields of ScriptName that it sets
WRITTEN_SIZE: dict[str, dict[str, dict[str, str]]] = {
    **{size: {size: {}} for size in PARTS},
    "1gpu": {model: {"model": model} for model in SMALL},
}
PLAIN_MODEL = {"7b": "qwen2.5-math-7b", "4b": "qwen3-4b", "cpu": "toy"}
HUB = {  # entry of the Hydra group `model` -> name on the hub
    "qwen2.5-math-7b": "Qwen/Qwen2.5-Math-7B",
    "qwen2.5-7b-instruct": "Qwen/Qwen2.5-7B-Instruct",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct",
    **SMALL,
}
# overrides of the cpu scripts by model, then optimizer
CPU = {
    "toy": ["profile=cpu", "model=toy", "dataset=toy"],
    "smollm2": ["profile=cpu_bf16", "model=smollm2", "dataset=small_sums"],
}
CPU_LR = {"toy": "3e-4", "smollm2": "1e-5"}

LORA_RANK, LORA_LR = 32, 1e-5  # as in config/adapter/lora.yaml
# cpu names say nothing of these; loss_scale is the response
NOT_SAID_ON_A_CPU = ("lr", "response", "loss_scale", "overlong")
USUAL_CLIP = "0.2_0.28"  # as in config/rpg_trainer.yaml
RESPONSE_LENGTHS = {"7b": 2048, "2k": 2048, "4k": 4096, "8k": 8192, "1gpu": 1024}  # tokens, by context or size
CPU_DIRECTORIES = {"toy": "model", "smollm2": "SmolLM2-135M-Instruct"}


class UnknownName(ValueError):
    """The grammar lacks this name; the message gives the nearest one."""


@dataclass(frozen=True)
class ScriptName:
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
    adapter: str | None = None

    @property
    def hub_model(self) -> str | None:
        """The model's name on the hub; None for the toy model."""
        return HUB.get(self.model or PLAIN_MODEL[self.size])

    @property
    def row(self) -> Method:
        """The method in the table."""
        return METHODS[self.method]

    @property
    def label(self) -> str:
        """The method's label in tables."""
        return self.row.label.format(D=(self.divergence or "").upper())

    @property
    def pi_old(self) -> str:
        """Entry of the Hydra group `pi_old`."""
        return "recomputed" if self.schedule == "sync" else self.row.pi_old

    @property
    def lr(self) -> float | None:
        """Learning rate; None on a CPU, where the name does not determine it."""
        if self.size == "cpu":
            return None
        return LORA_LR if self.adapter else float((self.size == "7b" and self.row.lr_7b) or 1e-6)

    @property
    def ablations(self) -> int | None:
        """How many of beta, clip and reference differ from the paper's; None without KL or clip numbers."""
        row = self.row
        if self.beta == "0" or (row.clips and not self.clip):
            return None
        return sum((self.beta not in (None, BETAS[0]), self.clip not in (None, *row.clips[:1]), bool(self.reference)))


def _objectives(method: Method) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every B of a method, and the fields of ScriptName that it sets."""
    if not method.has_divergence:
        yield from ((beta, {"beta": beta}) for beta in method.betas) if method.betas else [("", {})]
        return
    form = method.name.removeprefix("rpg")
    if not form:  # without KL any divergence works; the release uses UFKL at beta 0
        yield "", {"divergence": "ufkl", "beta": "0"}
    for divergence, beta in itertools.product(DIVERGENCES, method.betas):
        fields = {"divergence": divergence, "beta": beta}
        yield f"{divergence}{beta}{form}", fields
        clips = (*method.clips, *method.rare_clips)
        yield from ((f"{divergence}{beta}{form}_{clip}", {**fields, "clip": clip}) for clip in clips)


@functools.cache
def names() -> dict[str, ScriptName]:
    """Return every name of the grammar."""
    all_names = {}
    for size, method in itertools.product(PARTS, METHODS.values()):
        first = "rpg" if method.has_divergence else method.name
        parts = [WRITTEN_SIZE[size].items(), _objectives(method), *(part.items() for part in PARTS[size])]
        for chosen in itertools.product(*parts):
            fields: dict[str, str] = {}
            for _, part in chosen:
                fields |= part
            name = ScriptName(method.name, size, **fields)
            if name.reference and (not name.divergence or name.beta == "0"):  # no reference to fix
                continue
            text = "_".join(filter(None, [first, *(written for written, _ in chosen)]))
            all_names[SHORT.get(text, text)] = all_names[text] = name
    return all_names


def parse(text: str) -> ScriptName:
    """Return the parts of a name. Raises UnknownName if the grammar lacks it."""
    if text not in names():
        raise UnknownName(f"{text}: no script name of recipe/rpg/README.md; {did_you_mean(text, names(), 0.0)}")
    return names()[text]


@functools.cache
def listed() -> dict[str, ScriptName]:
    """Return the names that `rpg list` lists and `rpg train` starts."""
    return {text: name for text, name in names().items() if text not in SHORT and _is_listed(name)}


def _is_listed(name: ScriptName) -> bool:
    row, plain = name.row, name.optim == "adamw" and name.model is None
    if name.schedule == "async":
        main = name.ablations == 0 and name.divergence in (None, "urkl") and name.context in (None, "4k")
        return row.asynchronous and plain and main
    if any(_fits(name, label, figure, name.size) for figure in FIGURES for label in FIGURES[figure]):
        return True
    if name.size not in row.sizes or name.clip in row.rare_clips:
        return False
    if name.size == "7b":  # the release's grid; of newer methods the rows of table 8
        of_table_8 = name.optim == "adamw" and name.model is not None
        return name.beta in (None, "0", BETAS[0]) and (of_table_8 or not row.newer)
    if name.size == "4b":  # the paper's tables, and for RPG one ablation at a time
        allowed = [0, 1] if name.divergence in IN_4B else [] if name.divergence else [0]
        return plain and name.ablations in allowed
    if name.size == "1gpu":
        allowed = name.adapter is None or not row.newer
        return allowed and name.ablations == 0 and name.divergence in (None, "urkl")
    if not plain:  # the paper's method, once with each
        main = name.label == "RPG-REINFORCE-URKL" and name.clip == row.clips[0] and name.beta == BETAS[0]
        return main and (name.optim == "adamw" or (name.model is None and not name.reference))
    if name.reference:
        return False
    return name.beta in (None, "0", BETAS[0]) and (not row.clips or name.clip is not None)


def _fits(name: ScriptName, label: str, table: int | str, size: str | None) -> bool:
    """Return whether a name is that of a row; size cpu: of its toy run."""
    folder, fields = ("cpu", {}) if size == "cpu" else TABLES[table]
    line = FIGURES[table][label] if table in FIGURES else {"ablations": 0}
    plain = {"model": None, "optim": "adamw", "schedule": "sync", "label": label.split(" (")[0]}
    wanted = {**plain, **line, "size": folder, **fields}
    return all(getattr(name, field) == value for field, value in wanted.items())


def name_in_table(label: str, table: int | str, size: str | None = None) -> str:
    """Return the name of the run of a row in a table or figure of the paper, such as grpo_4b_2k; cpu: its toy run.

    Raises KeyError for a label or table without runs.
    """
    for text, name in listed().items():
        if _fits(name, label, table, size):
            return text
    raise KeyError(f"{table}: no script of {label}")


def stands_for(name: ScriptName) -> dict[str, Any]:
    """Return the settings that the name stands for, by the names of rpg/config/keys.py, besides its defaults there.

    `model` is a hub name, or for a CPU the name of the model's directory.
    """
    row = name.row
    unnamed = UNNUMBERED_CLIP if row.clips else USUAL_CLIP
    low, high = map(float, (name.clip or row.groups.get("clip", unnamed)).split("_"))
    response = RESPONSE_LENGTHS.get(name.context or name.size, RESPONSE_LENGTHS["7b"])
    made: dict[str, Any] = {
        "clip_low": low,
        "clip_high": high,
        "model": name.hub_model if name.size != "cpu" else CPU_DIRECTORIES[name.model or PLAIN_MODEL["cpu"]],
        "reference": name.reference or row.groups.get("reference", "old"),
        "optimizer": "AdamWScheduleFree" if name.optim == "schedulefree" else "AdamW",
        "lora_rank": LORA_RANK if name.adapter else 0,
        "schedule": "sync" if name.schedule == "sync" else "colocate_async",
        "ahead_colocated": 1,
        "bypass": name.pi_old == "behavior",
        "weight": "token" if name.pi_old == "decoupled" else None,
        "filters": name.size != "cpu",  # the toy task's data sets turn it off
    }
    if name.size != "cpu":  # elsewhere names say nothing about them
        made |= {"lr": name.lr, "response": response}
    beta = None if name.beta is None else float(name.beta)
    settings = row.resolved_settings(divergence=name.divergence, beta=beta, response=response)
    return made | {key: value for key, value in settings.items() if not str(value).startswith("${")}


def overrides(name: ScriptName) -> list[str]:
    """Return the Hydra overrides of a name."""
    model = name.model or PLAIN_MODEL.get(name.size, "")
    lr, optim = name.row.lr_7b if name.size == "7b" else None, name.optim
    if name.size == "1gpu":
        first = ["profile=one_gpu", f"model={model}", "dataset=gsm8k"]
    elif name.size == "cpu":
        first = CPU[model]
        if optim == "adamw":
            optim = model  # the group `optim` has an entry per CPU model
        else:
            lr = CPU_LR[model]
    else:
        first = [f"model={model}"]
    rest = {
        "optim": optim,
        "context": name.context,
        "method": name.method,
        "rpg.divergence": name.divergence,
        "rpg.kl_coef": name.beta,
        "clip": name.clip or (UNNUMBERED_CLIP if name.row.clips else None),
        "reference": name.reference,
        "adapter": name.adapter,
        f"{ACTOR}.optim.lr": lr,
        **({"schedule": name.schedule, "pi_old": name.pi_old} if name.schedule != "sync" else {}),
    }
    return [*first, *(f"{key}={value}" for key, value in rest.items() if value is not None)]
