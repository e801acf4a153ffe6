"""Which method a run is, how a method looks everywhere, who judged it, and which benchmark a data_source is."""

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from rpg.objectives.spec import LOSS_NAMES
from rpg.results.config import setting
from rpg.rewards import OURS, data_sources

# What a data_source counts as in tables: the paper's names, in the paper's order; others keep their own.
BENCHMARKS = {
    "AIME24": tuple(name for name in data_sources.AIME_SOURCES if "24" in name or name == "Maxwell-Jia/AIME_2024"),
    "AIME25": tuple(name for name in data_sources.AIME_SOURCES if "25" in name),
    "AMC23": data_sources.AMC_SOURCES,
    "Minerva-Math": data_sources.MINERVA_SOURCES,
    "OlympiadBench": data_sources.OLYMPIAD_SOURCES,
    "MATH-500": data_sources.MATH_SOURCES,
    "toy sums": data_sources.TOY_SOURCES,
}
_BENCHMARK_OF = {name: benchmark for benchmark, names in BENCHMARKS.items() for name in names}


CORRECTED = "GRPO-corrected"  # its KL weighted by the importance ratio; not in the paper's tables
BASELINES = ("GRPO", CORRECTED, "REINFORCE++", "REINFORCE++-Baseline", "DAPO")
DIVERGENCES = ("FKL", "RKL", "UFKL", "URKL")
METHODS = (*BASELINES, *(f"RPG-{d}" for d in DIVERGENCES), *(f"RPG-REINFORCE-{d}" for d in DIVERGENCES))


Dash = Literal["-", "--", ":", "-."]


@dataclass(frozen=True)
class Look:
    """How a method is drawn: colour says which, the dash tells an RPG loss from its REINFORCE sibling."""

    colour: str
    dash: Dash


# Baselines grey to brown; a divergence has one hue, its REINFORCE form the darker shade.
LOOKS = {
    "GRPO": Look("#7f7f7f", "-."),
    CORRECTED: Look("#00868b", "-."),
    "REINFORCE++": Look("#b5a642", "-."),
    "REINFORCE++-Baseline": Look("#8c564b", "-."),
    "DAPO": Look("#111111", ":"),
    "RPG-FKL": Look("#66c2a5", "--"),
    "RPG-RKL": Look("#c994e0", "--"),
    "RPG-UFKL": Look("#6baed6", "--"),
    "RPG-URKL": Look("#fd8d3c", "--"),
    "RPG-REINFORCE-FKL": Look("#1b7a5a", "-"),
    "RPG-REINFORCE-RKL": Look("#7b3294", "-"),
    "RPG-REINFORCE-UFKL": Look("#08519c", "-"),
    "RPG-REINFORCE-URKL": Look("#d62728", "-"),
}
OTHER_COLOURS = ("#17becf", "#bcbd22", "#e377c2", "#393b79", "#637939", "#843c39")

# What a run is called (the launch scripts' grammar), longest first.
_NAME = re.compile(
    r"(?:^|[_/])(?:(?P<baseline>dapo|grpo_corrected|grpo|rfppb|rfpp)(?=_|$)"
    r"|rpg_.*?(?P<divergence>ufkl|urkl|fkl|rkl)[\d.e-]*(?P<reinforce>_rf(?P<clip>_clip_(?:ppo|hard))?)?(?=_|$))"
)
_BASELINE_OF = {
    "dapo": "DAPO",
    "grpo": "GRPO",
    "grpo_corrected": CORRECTED,
    "rfpp": "REINFORCE++",
    "rfppb": "REINFORCE++-Baseline",
}


def benchmark_of(data_source: str) -> str:
    """The paper's name of the benchmark that `data_source` spells, or the data_source itself."""
    return _BENCHMARK_OF.get(data_source, data_source)


def family(method: str) -> str:
    """RPG-REINFORCE, RPG or baseline: what the paper marks its rows by."""
    if method.startswith("RPG-REINFORCE"):
        return "RPG-REINFORCE"
    return "RPG" if method.startswith("RPG") else "baseline"


def order_of(method: str) -> tuple[int, str]:
    """Sort key: the paper's order of methods, others behind."""
    base = base_method(method)
    return (METHODS.index(base) if base in METHODS else len(METHODS), method)


def base_method(method: str) -> str:
    """A method without what was added to tell its settings apart: "RPG-URKL (lr 5e-7)" is RPG-URKL."""
    return method.split(" (")[0]


def method_of_config(config: dict[str, Any]) -> str | None:
    """The paper's name of the method that a resolved configuration runs; None where it has no name there."""
    loss = setting(config, "actor_rollout_ref.actor.policy_loss.loss_mode")
    if loss == "rpg_urkl" and setting(config, "algorithm.adv_estimator") == "grpo":
        return CORRECTED  # GRPO's KL, weighted, is the loss of URKL (docs/mathematics.md)
    if loss in LOSS_NAMES:
        divergence, estimator, clip = LOSS_NAMES[loss]
        if estimator == "differentiable":
            return f"RPG-{divergence.upper()}"
        variant = {"ppo": "", "none": " (no clip)", "hard": " (hard clip)"}[clip]
        return f"RPG-REINFORCE-{divergence.upper()}{variant}"
    estimator = setting(config, "algorithm.adv_estimator")
    if loss not in (None, "vanilla") or estimator is None:
        return None
    if estimator == "grpo":
        return "DAPO" if setting(config, "algorithm.filter_groups.enable") else "GRPO"
    return {"reinforce_plus_plus": "REINFORCE++", "reinforce_plus_plus_baseline": "REINFORCE++-Baseline"}.get(estimator)


def judge_of_config(config: dict[str, Any]) -> str | None:
    """Which judge scored a run: release, verified, or the reward function where it is not rpg.rewards.

    A configuration of ours without the key is of a time when the judge was `verified` and no other.
    None without a configuration.
    """
    if not config:
        return None
    function = setting(config, "reward.custom_reward_function") or {}
    if judge := setting(function, "reward_kwargs.judge"):
        return judge
    path = function.get("path", OURS)
    return "verified" if path == OURS else PurePath(path).name if path else "verl's own"


def method_of_name(name: str) -> str | None:
    """The method that a run's name states by the launch scripts' grammar; None where it states none."""
    match = _NAME.search(name)
    if match is None:
        return None
    if match["baseline"]:
        return _BASELINE_OF[match["baseline"]]
    divergence = match["divergence"].upper()
    if not match["reinforce"]:
        return f"RPG-{divergence}"
    variant = {None: " (no clip)", "_clip_ppo": "", "_clip_hard": " (hard clip)"}[match["clip"]]
    return f"RPG-REINFORCE-{divergence}{variant}"


def looks_of(labels: list[str]) -> dict[str, Look]:
    """How each row label is drawn: a method's own look, solid colours of a second list for what has none.

    Labels of one method with different settings share its colour and take different dashes.
    """
    dashes: tuple[Dash, ...] = ("-", "--", ":", "-.")
    looks: dict[str, Look] = {}
    used: dict[str, int] = {}
    others = 0
    for label in sorted(
        set(labels), key=lambda label: (label != base_method(label), order_of(label))
    ):  # plain ones first
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
