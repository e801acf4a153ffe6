"""The methods: settings, labels, looks and names of each.

The grammar of the script names, config/method, the launch scripts, the labels and colours of tables and plots, and the
rows of `rpg reproduce` follow from this file. `python scripts/make_recipe.py` writes the files among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rpg.names import DIVERGENCES

Dash = Literal["-", "--", ":", "-."]

ACTOR = "actor_rollout_ref.actor"
ESTIMATOR = "algorithm.adv_estimator"
FILTER_GROUPS = "algorithm.filter_groups.enable"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg.enable"
USE_KL_LOSS = f"{ACTOR}.use_kl_loss"
KL_IN_REWARD = "algorithm.use_kl_in_reward"
DIVIDED = "algorithm.norm_adv_by_std_in_grpo"  # whether GRPO's advantages are divided by the group's deviation
AGGREGATION = f"{ACTOR}.loss_agg_mode"
LOSS = f"{ACTOR}.policy_loss.loss_mode"


@dataclass(frozen=True)
class Look:
    """How a line is drawn."""

    colour: str
    dash: Dash


# colours of a divergence: differentiable losses, REINFORCE losses; the last two are spare
COLOURS = [
    ("#66c2a5", "#1b7a5a"),
    ("#c994e0", "#7b3294"),
    ("#6baed6", "#08519c"),
    ("#fd8d3c", "#d62728"),
    ("#f4a6c0", "#a8326b"),
    ("#b3a98f", "#5e5433"),
]
DIVERGENCE_COLOURS: dict[str, tuple[str, str]] = dict(zip(DIVERGENCES, COLOURS, strict=False))
IN_4B = ("ufkl", "urkl")  # the divergences with scripts for Qwen3-4B, those of the paper's tables
EVERY_SIZE = ("7b", "4b", "1gpu", "cpu")
BETAS = ("1e-4", "1e-3")  # the first is the paper's, others are ablations


@dataclass(frozen=True)
class Method:
    """One method: an entry of the Hydra group `method`.

    Attributes:
        name: entry of the group. Script names begin with it; those of methods with divergences begin with `rpg` and
            have the rest of the name after divergence and beta: rpg_7b_urkl1e-4_rf for rpg_rf.
        label: the paper's name in tables. {D} is the divergence. Parentheses contain a variant, which is drawn like the
            method without it.
        about: description and source of the numbers; lines of at most 118 characters.
        settings: dotted key -> value, as in config/method/<name>.yaml.
        groups: entries of other Hydra groups that it selects.
        look: colour and dash; with divergences the colour is the divergence's.
        betas: values of beta in its script names; empty if beta is not in the name.
        clips: entries of the group `clip` in its script names, the paper's first; empty if names have no clip.
        sizes: sizes with its names; of divergences, `1gpu` has URKL only.
        asynchronous: whether it has asynchronous scripts (with URKL).
        pi_old: entry of the group `pi_old` for these: decoupled with a clip, behavior without (docs/off-policy.md).
        lr_7b: learning rate of its 7b scripts if the release's differs from the paper's 1e-6.
        beside: whether `rpg reproduce` offers it in addition to the paper's rows.
        newer: whether it is from another paper: of `7b` it has only table 8's model, of `1gpu` no LoRA.
        alias: another entry of the group `method` for it.
    """

    name: str
    label: str
    about: str
    settings: Mapping[str, Any]
    look: Look
    groups: Mapping[str, str] = field(default_factory=dict)
    betas: tuple[str, ...] = ()
    clips: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("7b", "4b", "cpu")
    asynchronous: bool = False
    pi_old: str = "decoupled"
    lr_7b: str | None = None
    beside: bool = False
    newer: bool = False
    alias: str = ""

    @property
    def has_divergence(self) -> bool:
        """Whether the method has one variant per divergence."""
        return "{D}" in self.label

    def resolved_settings(self, divergence: str | None = None, kl_coef: float | None = None) -> dict[str, Any]:
        """Return `settings` with ${rpg.divergence} and ${rpg.kl_coef} resolved, without these two keys."""
        settings = {"rpg.divergence": divergence, "rpg.kl_coef": kl_coef, **self.settings}
        inputs = {f"${{{key}}}": settings.pop(key) for key in ("rpg.divergence", "rpg.kl_coef")}
        settings[LOSS] = settings.get(LOSS, "vanilla").replace("${rpg.divergence}", inputs["${rpg.divergence}"] or "")
        return {key: inputs.get(value, value) if isinstance(value, str) else value for key, value in settings.items()}


# KL to the initial policy by verl's k1 estimator (the release's run_rfpp*.sh). Its gradient is that of log pi_theta
# for any reference, so verl's fixed reference trains like the release's moving one.
K1_LOSS = {USE_KL_LOSS: True, f"{ACTOR}.kl_loss_type": "kl", f"{ACTOR}.kl_loss_coef": "${rpg.kl_coef}"}
# group-mean advantages (the paper, Section 5); KL in the loss only
RPG_LOSS = {
    ESTIMATOR: "rpg",
    f"{ACTOR}.policy_loss._target_": "rpg.verl_plugin.config.RPGPolicyLossConfig",
    f"{ACTOR}.policy_loss.kl_coef": "${rpg.kl_coef}",
    f"{ACTOR}.policy_loss.kl_scope": "${rpg.kl_scope}",
    f"{ACTOR}.policy_loss.rho_bound": "${rpg.rho_bound}",
}
# no filter and no overlong penalty, which come from DAPO
PLAIN = {FILTER_GROUPS: False, OVERLONG: False}
# Dr. GRPO (2503.20783, Section 3): no division by the deviation, a constant instead of the number of tokens
DR_GRPO = {
    ESTIMATOR: "grpo",
    DIVIDED: False,
    AGGREGATION: "seq-mean-token-sum-norm",
    f"{ACTOR}.loss_scale_factor": "${data.max_response_length}",
}


@dataclass(frozen=True)
class Bounds:
    """The authors' bounds of a loss of verl.

    Attributes:
        low, high: verl's clip_ratio_low and clip_ratio_high.
        meaning: what they bound.
        source: where the authors print them.
        method: the entry of the group `method` with this loss; "" without one.
    """

    low: float
    high: float
    meaning: str
    source: str
    method: str = ""


NEWER: dict[str, Any] = {"sizes": EVERY_SIZE, "beside": True, "newer": True}
BOUNDS = {  # by loss_mode; losses without an entry have PPO's bounds, or none
    "gspo": Bounds(3e-4, 4e-4, "the ratio of a whole response", "arXiv 2507.18071, Section 5.1", "gspo"),
    "cispo": Bounds(1.0, 4.0, "the weight, to [0, 5]", "no floor: arXiv 2506.13585; 5: 2510.13786", "cispo"),
    "dppo_tv": Bounds(
        0.15, 0.15, "the difference of probabilities", "the authors' script for arXiv 2602.04879", "dppo"
    ),
    "dppo_kl": Bounds(0.05, 0.05, "the binary KL", "the authors' script for arXiv 2602.04879"),
    "geo_mean": Bounds(0.4, 0.4, "the log-ratio", "arXiv 2507.20673"),
    "clip_cov": Bounds(1.0, 1.0, "the ratio, beside the choice by covariance", "the authors' script for 2505.22617"),
}

ROWS = (  # in the order of tables
    Method(
        name="grpo",
        label="GRPO",
        about="GRPO: group mean and standard deviation, k3 to the initial policy, symmetric clip, no group filtering.\n"
        "Numbers of the release's run_grpo_*.sh; the paper's Appendix H has clip (0.1, 0.1).",
        settings={
            ESTIMATOR: "grpo",
            FILTER_GROUPS: False,
            USE_KL_LOSS: True,
            f"{ACTOR}.kl_loss_type": "low_var_kl",
            f"{ACTOR}.kl_loss_coef": 1e-3,
            OVERLONG: False,
        },
        groups={"clip": "0.2_0.2"},
        look=Look("#7f7f7f", "-."),
        sizes=EVERY_SIZE,
        asynchronous=True,
    ),
    Method(
        name="grpo_corrected",
        label="GRPO-corrected",
        about="GRPO with its KL term weighted by the importance ratio, w k3(pi_ref / pi_theta): the gradient of URKL\n"
        "to the initial policy (docs/mathematics.md); known as DeepSeek-V3.2's unbiased KL (arXiv 2512.02556).\n"
        "Everything else as in GRPO.",
        settings={
            "rpg.divergence": "urkl",
            "rpg.kl_coef": 1e-3,
            **RPG_LOSS,
            ESTIMATOR: "grpo",
            FILTER_GROUPS: False,
            LOSS: "rpg_${rpg.divergence}",
            OVERLONG: False,
        },
        groups={"clip": "0.2_0.2", "reference": "fixed"},
        look=Look("#00868b", "-."),
        sizes=EVERY_SIZE,
        beside=True,
        alias="deepseek_v32",
    ),
    Method(
        name="rfpp",
        label="REINFORCE++",
        about="REINFORCE++: returns whitened over the batch, k1 to a reference (the release's run_rfpp*.sh).",
        settings={ESTIMATOR: "reinforce_plus_plus", **K1_LOSS},
        look=Look("#b5a642", "-."),
        betas=BETAS,
    ),
    Method(
        name="rfppb",
        label="REINFORCE++-Baseline",
        about="REINFORCE++-Baseline: the group mean as baseline, then whitened over the batch; KL as in REINFORCE++.",
        settings={ESTIMATOR: "reinforce_plus_plus_baseline", **K1_LOSS},
        look=Look("#8c564b", "-."),
        betas=BETAS,
    ),
    Method(
        name="dapo",
        label="DAPO",
        about="DAPO: GRPO's advantages, no KL, asymmetric clip, group filtering (even if the data set turns it off).",
        settings={ESTIMATOR: "grpo", FILTER_GROUPS: True},
        look=Look("#111111", ":"),
        sizes=EVERY_SIZE,
        asynchronous=True,
    ),
    Method(
        name="dr_grpo",
        label="Dr. GRPO",
        about="Dr. GRPO (arXiv 2503.20783, Section 3): the group mean without the deviation, the sum over a response\n"
        "divided by the longest allowed length; clip (0.2, 0.2), no KL, no group filtering.",
        settings={**DR_GRPO, **PLAIN},
        groups={"clip": "0.2_0.2"},
        look=Look("#546e7a", "-."),
        **NEWER,
    ),
    Method(
        name="gspo",
        label="GSPO",
        about="GSPO (arXiv 2507.18071, Section 5.1): one ratio per response, clipped to (3e-4, 4e-4); GRPO's\n"
        "advantages, mean over tokens of a response, then over responses; no KL, no group filtering.",
        settings={ESTIMATOR: "grpo", LOSS: "gspo", AGGREGATION: "seq-mean-token-mean", **PLAIN},
        groups={"clip": "3e-4_4e-4"},
        look=Look("#31a354", "-."),
        **NEWER,
    ),
    Method(
        name="cispo",
        label="CISPO",
        about="CISPO (MiniMax-M1, arXiv 2506.13585, Section 3.1): w A grad log pi with the weight w clipped and\n"
        "without gradient. No lower bound; MiniMax-M1 does not print the upper one; 5 is ScaleRL's (2510.13786).\n"
        "GRPO's advantages, mean over tokens, DAPO's group filtering and overlong penalty, as in MiniMax-M1.",
        settings={ESTIMATOR: "grpo", LOSS: "cispo", FILTER_GROUPS: True},
        groups={"clip": "1_4"},
        look=Look("#d6a400", "-."),
        **NEWER,
    ),
    Method(
        name="dppo",
        label="DPPO-TV",
        about="DPPO-Binary-TV (arXiv 2602.04879): drops a token whose probability has moved by more than 0.15 in the\n"
        "direction of its advantage. Numbers of the authors' script: Dr. GRPO's advantages and aggregation, weights\n"
        "not truncated (clip_ratio_c). The authors also take pi_old=behavior, the policy that sampled.",
        settings={LOSS: "dppo_tv", **DR_GRPO, f"{ACTOR}.clip_ratio_c": 1e4, **PLAIN},
        groups={"clip": "0.15_0.15"},
        look=Look("#5c6bc0", "-."),
        **NEWER,
    ),
    Method(
        name="sapo",
        label="SAPO",
        about="SAPO (arXiv 2511.20347): a sigmoid of the ratio instead of a clip, temperatures 1.0 for positive and\n"
        "1.05 for other advantages; GRPO's advantages, mean over tokens of a response, then over responses; no KL.",
        settings={
            ESTIMATOR: "grpo",
            LOSS: "sapo",
            f"{ACTOR}.tau_pos": 1.0,
            f"{ACTOR}.tau_neg": 1.05,
            AGGREGATION: "seq-mean-token-mean",
            **PLAIN,
        },
        look=Look("#ad1457", "-."),
        **NEWER,
    ),
    Method(
        name="kl_in_reward",
        label="KL in reward",
        about="k1 to the initial policy in the reward, which is unbiased (arXiv 2512.21852); advantages are the\n"
        "reward less the group's mean; PPO's clip (0.2, 0.2), no group filtering, which would drop the KL of a group.",
        settings={
            ESTIMATOR: "rpg",
            KL_IN_REWARD: True,
            "algorithm.kl_penalty": "kl",
            "algorithm.kl_ctrl.kl_coef": "${rpg.kl_coef}",
            **PLAIN,
        },
        groups={"clip": "0.2_0.2"},
        look=Look("#a1887f", "-."),
        betas=BETAS,
        **NEWER,
    ),
    Method(
        name="rpg",
        label="RPG-{D}",
        about="RPG, differentiable: dual-clipped reward term and unclipped KL loss, as the release ran. The paper's\n"
        "Algorithm 1 clips both together: +actor_rollout_ref.actor.policy_loss.clip_scope=regularized.",
        settings={**RPG_LOSS, LOSS: "rpg_${rpg.divergence}"},
        look=Look("", "--"),
        betas=BETAS,
        sizes=EVERY_SIZE,
        asynchronous=True,
    ),
    Method(
        name="rpg_rf_clip_ppo",
        label="RPG-REINFORCE-{D}",
        about="RPG-REINFORCE with RPG-Style Clip (the paper's Algorithm 2).",
        settings={**RPG_LOSS, LOSS: "rpg_rf_${rpg.divergence}_clip_ppo"},
        look=Look("", "-"),
        betas=BETAS,
        clips=("0.2_0.28", "0.1_0.1"),
        sizes=EVERY_SIZE,
        asynchronous=True,
        lr_7b="5e-7",
    ),
    Method(
        name="rpg_rf_clip_hard",
        label="RPG-REINFORCE-{D} (hard clip)",
        about="RPG-REINFORCE with the importance weight clipped to [1 - clip_low, 1 + clip_high] wherever it stands.",
        settings={**RPG_LOSS, LOSS: "rpg_rf_${rpg.divergence}_clip_hard"},
        look=Look("", "-"),
        betas=BETAS,
        clips=("0.2_0.28", "0.1_0.1"),
        sizes=(),
        lr_7b="5e-7",
    ),
    Method(
        name="rpg_rf",
        label="RPG-REINFORCE-{D} (no clip)",
        about="RPG-REINFORCE without clipping: the gradient is exact per token (the paper's Table 2).",
        settings={**RPG_LOSS, LOSS: "rpg_rf_${rpg.divergence}"},
        look=Look("", "-"),
        betas=BETAS,
        sizes=("7b", "cpu"),
        asynchronous=True,
        pi_old="behavior",
        lr_7b="5e-7",
    ),
)
METHODS = {method.name: method for method in ROWS}

# the paper's tables of results: size of the scripts, and further parts of their names; rows are identified by labels
TABLES = {
    3: ("4b", {"context": "8k"}),
    5: ("4b", {"context": "4k"}),
    6: ("4b", {"context": "2k"}),
    7: ("4b", {"context": "4k"}),
    8: ("7b", {"model": "qwen2.5-7b-instruct"}),
}
