"""Methods of other papers: their scripts' settings against the numbers that their authors print."""

import pytest
from omegaconf import OmegaConf

from scripts.make_recipe import NEWER
from tests.builders.launch_scripts import composed

A = "actor_rollout_ref.actor"
GRPO = {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": True}
UNDIVIDED = {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False}
NO_KL = {f"{A}.use_kl_loss": False, "algorithm.use_kl_in_reward": False}
LONGEST = 32  # tokens of a response of the toy task


def clip(loss: str, low: float, high: float, aggregation: str) -> dict:
    keys = ("policy_loss.loss_mode", "clip_ratio_low", "clip_ratio_high", "loss_agg_mode")
    return {f"{A}.{key}": value for key, value in zip(keys, (loss, low, high, aggregation), strict=True)}


PRINTED = {
    "dr_grpo_cpu": {  # arXiv 2503.20783, Section 3: without 1/|o| and 1/std
        **UNDIVIDED,
        **NO_KL,
        **clip("vanilla", 0.2, 0.2, "seq-mean-token-sum-norm"),
        f"{A}.loss_scale_factor": LONGEST,
    },
    "gspo_cpu": {**GRPO, **NO_KL, **clip("gspo", 3e-4, 4e-4, "seq-mean-token-mean")},  # 2507.18071, Section 5.1
    "cispo_cpu": {**GRPO, **NO_KL, **clip("cispo", 1.0, 4.0, "token-mean")},  # 2506.13585: no floor; 2510.13786: 5
    "dppo_cpu": {  # the authors' script for arXiv 2602.04879
        **UNDIVIDED,
        **NO_KL,
        **clip("dppo_tv", 0.15, 0.15, "seq-mean-token-sum-norm"),
        f"{A}.loss_scale_factor": LONGEST,
        f"{A}.clip_ratio_c": 1e4,
    },
    "sapo_cpu": {  # arXiv 2511.20347
        **GRPO,
        **NO_KL,
        f"{A}.policy_loss.loss_mode": "sapo",
        f"{A}.tau_pos": 1.0,
        f"{A}.tau_neg": 1.05,
    },
    "kl_in_reward_cpu_1e-4": {  # k1 in the reward, arXiv 2512.21852
        "algorithm.adv_estimator": "rpg",
        "algorithm.use_kl_in_reward": True,
        "algorithm.kl_penalty": "kl",
        "algorithm.kl_ctrl.type": "fixed",
        "algorithm.kl_ctrl.kl_coef": 1e-4,
        f"{A}.use_kl_loss": False,
        **clip("vanilla", 0.2, 0.2, "token-mean"),
    },
}


@pytest.mark.parametrize("name", PRINTED)
def test_settings_are_the_papers(name):
    config = composed(name)
    assert {key: OmegaConf.select(config, key) for key in PRINTED[name]} == PRINTED[name]


def test_every_newer_method_is_compared():
    assert {name.partition("_cpu")[0] for name in PRINTED} == {*NEWER}
