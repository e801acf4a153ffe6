"""Where a run's configuration contradicts its launch script's name: the settings that a name stands for."""

import hashlib
from pathlib import PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rpg.config.reward import FUNCTION, JUDGE, is_ours
from rpg.config.settings import ACTOR, CORRECTION, MODEL, OPTIM
from rpg.names import CLIP_BRANCHES, CLIP_SCOPES, KL_SCOPES
from rpg.registry.methods import (
    AGGREGATION,
    DIVIDED,
    ESTIMATOR,
    FILTER_GROUPS,
    KL_IN_REWARD,
    LOSS,
    OVERLONG,
    USE_KL_LOSS,
)
from rpg.registry.scripts import ScriptName

LONGEST = 120  # characters of a run's name; in longer ones, a digest replaces the overrides
MODEL_PATH = f"{MODEL}.path"
# values of keys that a configuration may lack (rpg.objectives.LossSpec)
DEFAULTS = {
    f"{ACTOR}.policy_loss.clip_scope": CLIP_SCOPES[0],
    f"{ACTOR}.policy_loss.clip_branch": CLIP_BRANCHES[0],
    f"{ACTOR}.policy_loss.kl_scope": KL_SCOPES[0],
    f"{ACTOR}.policy_loss.z_old": 1.0,
}
# the settings that a script's name stands for: another value contradicts it
DEFINING = (
    ESTIMATOR, LOSS, FILTER_GROUPS, OVERLONG, JUDGE, USE_KL_LOSS, f"{ACTOR}.kl_loss_type", f"{ACTOR}.kl_loss_coef",
    f"{ACTOR}.policy_loss._target_", f"{ACTOR}.policy_loss.kl_coef", *DEFAULTS,
    f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high", f"{ACTOR}.clip_ratio_c", AGGREGATION,
    f"{ACTOR}.loss_scale_factor", f"{ACTOR}.tau_pos", f"{ACTOR}.tau_neg", DIVIDED,
    "algorithm.kl_penalty", "algorithm.kl_ctrl.kl_coef",
    f"{ACTOR}.entropy_coeff", f"{ACTOR}.ppo_epochs", f"{OPTIM}.optimizer", f"{MODEL}.lora_rank",
    KL_IN_REWARD, "rpg.reference.mode", "trainer.v1.trainer_mode", f"{CORRECTION}.bypass_mode",
    f"{CORRECTION}.rollout_is", f"{CORRECTION}.rollout_is_threshold", "trainer.v1.colocate_async.num_warmup_batches",
    MODEL_PATH,
)  # fmt: skip
DEFINING_ON_GPU = (f"{OPTIM}.lr", "data.max_response_length")
SET_BY_OWN_REWARD = {OVERLONG: False, JUDGE: None}  # own_reward.py's changes, which contradict no name


def differences(name: ScriptName, script_config: DictConfig, config: DictConfig) -> dict[str, tuple[Any, Any]]:
    """Return where config contradicts its script: key -> (value of the script, value in config).

    script_config: the configuration of the script without other overrides. Compares the keys that a name stands for; a
    model by the last part of its path, so that a local copy is the same model.
    """
    follows = {} if is_ours(OmegaConf.select(config, f"{FUNCTION}.path")) else SET_BY_OWN_REWARD
    contradictions = {}
    for key in (*DEFINING, *(() if name.size == "cpu" else DEFINING_ON_GPU)):
        expected, actual = (
            OmegaConf.select(composed, key, default=DEFAULTS.get(key)) for composed in (script_config, config)
        )
        if key == MODEL_PATH and PurePath(str(expected)).name == PurePath(str(actual)).name:
            continue
        if expected != actual and not (key in follows and actual == follows[key]):
            contradictions[key] = (expected, actual)
    return contradictions


def custom_name(text: str, contradictions: dict[str, tuple[Any, Any]]) -> str:
    """Return the name of a run whose settings contradict its script's name: NAME-custom-key=value,..."""
    changed = (f"{key.split('.')[-1]}={PurePath(str(actual)).name}" for key, (_, actual) in contradictions.items())
    suffix = ",".join(changed)
    if len(text) + len(suffix) > LONGEST:
        suffix = hashlib.sha256(suffix.encode()).hexdigest()[:12]
    return f"{text}-custom-{suffix}"
