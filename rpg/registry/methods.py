"""The methods: settings, labels, looks and names of each.

The grammar of the script names, config/method, the launch scripts, the labels and colours of tables and plots, and the
rows of `rpg reproduce` follow from this file. `python scripts/make_recipe.py` writes the files among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rpg.names import DIVERGENCES

Dash = Literal["-", "--", ":", "-."]


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


# interpolations of the recipe's YAML: inputs of a method's settings
DIVERGENCE, BETA, RESPONSE = "${rpg.divergence}", "${rpg.kl_coef}", "${data.max_response_length}"
INPUTS = {"divergence": DIVERGENCE, "beta": BETA, "response": RESPONSE}


@dataclass(frozen=True)
class Method:
    """One method: an entry of the Hydra group `method`.

    Attributes:
        name: entry of the group. Script names begin with it; those of methods with divergences begin with `rpg` and
            have the rest of the name after divergence and beta: rpg_7b_urkl1e-4_rf for rpg_rf.
        label: the paper's name in tables. {D} is the divergence. Parentheses contain a variant, which is drawn like the
            method without it.
        about: description and source of the numbers; lines of at most 118 characters.
        settings: name of the setting (rpg/config/keys.py) -> value, as in config/method/<name>.yaml.
        groups: entries of other Hydra groups that it selects.
        look: colour and dash; with divergences the colour is the divergence's.
        betas: values of beta in its script names; empty if beta is not in the name.
        clips: entries of the group `clip` in its script names, the paper's first; empty if names have no clip.
        rare_clips: entries in names without a script.
        sizes: sizes with its names; of divergences, `1gpu` has URKL only.
        asynchronous: whether it has asynchronous scripts (with URKL).
        pi_old: entry of the group `pi_old` for these: decoupled with a clip, behavior without (docs/off-policy.md).
        lr_7b: learning rate of its 7b scripts if the release's differs from the paper's 1e-6.
        beside: whether `rpg reproduce` offers it in addition to the paper's rows.
        newer: whether it is from another paper: of `7b` it has only table 8's model, of `1gpu` no LoRA.
    """

    name: str
    label: str
    about: str
    settings: Mapping[str, Any]
    look: Look
    groups: Mapping[str, str] = field(default_factory=dict)
    betas: tuple[str, ...] = ()
    clips: tuple[str, ...] = ()
    rare_clips: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("7b", "4b", "cpu")
    asynchronous: bool = False
    pi_old: str = "decoupled"
    lr_7b: str | None = None
    beside: bool = False
    newer: bool = False

    @property
    def has_divergence(self) -> bool:
        """Whether the method has one variant per divergence."""
        return "{D}" in self.label

    def resolved_settings(self, **inputs: Any) -> dict[str, Any]:
        """Return `settings` with the inputs resolved, without the inputs themselves.

        inputs: divergence, beta and response; the method's own win over None. Interpolations of others stay.
        """
        chosen = {name: value for name, value in inputs.items() if value is not None}
        made = {name: value for name, value in self.settings.items() if name not in INPUTS}
        chosen = {**{name: value for name, value in self.settings.items() if name in INPUTS}, **chosen}
        texts = {text: chosen.get(name) for name, text in INPUTS.items()}
        made["loss"] = made.get("loss", "vanilla").replace(DIVERGENCE, chosen.get("divergence") or "")
        return {name: texts.get(value, value) if isinstance(value, str) else value for name, value in made.items()}


# KL to the initial policy by verl's k1 estimator (the release's run_rfpp*.sh). Its gradient is that of log pi_theta
# for any reference, so verl's fixed reference trains like the release's moving one.
K1_LOSS = {"kl_loss": True, "kl_loss_kind": "kl", "kl_loss_coef": BETA}
# group-mean advantages (the paper, Section 5); KL in the loss only
RPG_LOSS = {
    "estimator": "rpg",
    "loss_config": "rpg.verl_plugin.config.RPGPolicyLossConfig",
    "kl_coef": BETA,
    "loss_kl_scope": "${rpg.kl_scope}",
    "loss_rho_bound": "${rpg.rho_bound}",
}
# no filter and no overlong penalty, which come from DAPO
PLAIN = {"filters": False, "overlong": False}
# Dr. GRPO (2503.20783, Section 3): no division by the deviation, a constant instead of the number of tokens
DR_GRPO = {"estimator": "grpo", "divided": False, "aggregation": "seq-mean-token-sum-norm", "loss_scale": RESPONSE}


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
            "estimator": "grpo",
            "filters": False,
            "kl_loss": True,
            "kl_loss_kind": "low_var_kl",
            "kl_loss_coef": 1e-3,
            "overlong": False,
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
        "to the initial policy (docs/mathematics.md), the KL term of DeepSeek-V3.2 (arXiv 2512.02556, Section 3.1).\n"
        "Everything else as in GRPO, not as in DeepSeek-V3.2.",
        settings={
            "divergence": "urkl",
            "beta": 1e-3,
            **RPG_LOSS,
            "estimator": "grpo",
            "filters": False,
            "loss": f"rpg_{DIVERGENCE}",
            "overlong": False,
        },
        groups={"clip": "0.2_0.2", "reference": "fixed"},
        look=Look("#00868b", "-."),
        sizes=EVERY_SIZE,
        beside=True,
    ),
    Method(
        name="rfpp",
        label="REINFORCE++",
        about="REINFORCE++: returns whitened over the batch, k1 to a reference (the release's run_rfpp*.sh).",
        settings={"estimator": "reinforce_plus_plus", **K1_LOSS},
        look=Look("#b5a642", "-."),
        betas=BETAS,
    ),
    Method(
        name="rfppb",
        label="REINFORCE++-Baseline",
        about="REINFORCE++-Baseline: the group mean as baseline, then whitened over the batch; KL as in REINFORCE++.",
        settings={"estimator": "reinforce_plus_plus_baseline", **K1_LOSS},
        look=Look("#8c564b", "-."),
        betas=BETAS,
    ),
    Method(
        name="dapo",
        label="DAPO",
        about="DAPO: GRPO's advantages, no KL, asymmetric clip, group filtering (even if the data set turns it off).",
        settings={"estimator": "grpo", "filters": True},
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
        settings={"estimator": "grpo", "loss": "gspo", "aggregation": "seq-mean-token-mean", **PLAIN},
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
        settings={"estimator": "grpo", "loss": "cispo", "filters": True},
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
        settings={"loss": "dppo_tv", **DR_GRPO, "clip_c": 1e4, **PLAIN},
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
            "estimator": "grpo",
            "loss": "sapo",
            "tau_pos": 1.0,
            "tau_neg": 1.05,
            "aggregation": "seq-mean-token-mean",
            **PLAIN,
        },
        look=Look("#ad1457", "-."),
        **NEWER,
    ),
    Method(
        name="kl_in_reward",
        label="KL in reward",
        about="k1 to the initial policy in the reward (arXiv 2512.21852): unbiased for samples of the trained policy,\n"
        "biased in the later updates of a batch. Advantages are the reward less the group's mean; PPO's clip\n"
        "(0.2, 0.2); no group filtering, which would drop the KL of a group.",
        settings={
            "estimator": "rpg",
            "kl_in_reward": True,
            "kl_in_reward_kind": "kl",
            "kl_in_reward_coef": BETA,
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
        settings={**RPG_LOSS, "loss": f"rpg_{DIVERGENCE}"},
        look=Look("", "--"),
        betas=BETAS,
        sizes=EVERY_SIZE,
        asynchronous=True,
    ),
    Method(
        name="rpg_rf_clip_ppo",
        label="RPG-REINFORCE-{D}",
        about="RPG-REINFORCE with RPG-Style Clip (the paper's Algorithm 2).",
        settings={**RPG_LOSS, "loss": f"rpg_rf_{DIVERGENCE}_clip_ppo"},
        look=Look("", "-"),
        betas=BETAS,
        clips=("0.2_0.28", "0.1_0.1"),
        rare_clips=("0.28_0.28",),  # of Figure 8's legend (E21)
        sizes=EVERY_SIZE,
        asynchronous=True,
        lr_7b="5e-7",
    ),
    Method(
        name="rpg_rf_clip_dual",
        label="RPG-REINFORCE-{D} (dual-clip weight)",
        about="RPG-REINFORCE with the dual-clipped importance weight (the paper's Eq. 4.1), which silences no token.",
        settings={**RPG_LOSS, "loss": f"rpg_rf_{DIVERGENCE}_clip_dual"},
        look=Look("", "-"),
        betas=BETAS,
        clips=("0.2_0.28", "0.1_0.1"),
        sizes=(),
        lr_7b="5e-7",
    ),
    Method(
        name="rpg_rf_clip_hard",
        label="RPG-REINFORCE-{D} (hard clip)",
        about="RPG-REINFORCE with the importance weight clipped to [1 - clip_low, 1 + clip_high] wherever it stands\n"
        "(the paper's Remark F.2).",
        settings={**RPG_LOSS, "loss": f"rpg_rf_{DIVERGENCE}_clip_hard"},
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
        settings={**RPG_LOSS, "loss": f"rpg_rf_{DIVERGENCE}"},
        look=Look("", "-"),
        betas=BETAS,
        sizes=("7b", "cpu"),
        asynchronous=True,
        pi_old="behavior",
        lr_7b="5e-7",
    ),
)
METHODS = {method.name: method for method in ROWS}

# the paper's tables of results and figures of ablations: size of the scripts, and further parts of their names; rows
# are identified by labels
TABLES: dict[int | str, tuple[str, dict[str, str]]] = {
    3: ("4b", {"context": "8k"}),
    5: ("4b", {"context": "4k"}),
    6: ("4b", {"context": "2k"}),
    7: ("4b", {"context": "4k"}),
    8: ("7b", {"model": "qwen2.5-7b-instruct"}),
    "figure8": ("4b", {"context": "2k"}),
    "figure9": ("4b", {"context": "4k"}),
}
_ABLATED = {"beta": BETAS[0], "clip": "0.2_0.28", "reference": None}
# the lines of the figures: label -> parts of the script's name in which lines differ
FIGURES: dict[int | str, dict[str, dict[str, str | None]]] = {
    "figure8": {
        f"RPG-REINFORCE-{divergence} (clip {clip})": _ABLATED | {"clip": clip}
        for clip in ("0.1_0.1", "0.2_0.28")
        for divergence in ("UFKL", "URKL")
    },
    "figure9": {
        "RPG-REINFORCE-UFKL (beta 1e-4)": _ABLATED,
        "RPG-REINFORCE-UFKL (beta 1e-3)": _ABLATED | {"beta": "1e-3"},
        "RPG-REINFORCE-UFKL (beta 1e-3 noiterref)": _ABLATED | {"beta": "1e-3", "reference": "fixed"},
    },
}
