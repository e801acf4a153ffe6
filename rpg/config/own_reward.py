"""Adapt a run to the user's reward function; reward.custom_reward_function.path=FILE is the only override it needs."""

from omegaconf import DictConfig, OmegaConf, open_dict

from rpg.config.overrides import BadSetting, key_of
from rpg.config.reward import FUNCTION, KWARGS, is_ours
from rpg.config.settings import OVERLONG
from rpg.rewards.user_reward import ADAPTER, RewardError, find_reward

NAME = f"{FUNCTION}.name"
JUDGE = "judge"  # the group and keyword of our verifier


def set_own_reward(config: DictConfig, overrides: list[str], notes: list[str]) -> None:
    """Adapt the configuration to a reward function other than rpg.rewards; append a note about what changed.

    The function is looked up in the file, and verl calls it through rpg.rewards.user_reward. The keyword `judge` is
    dropped. The overlong penalty is switched off: it would be added to a reward of another range.
    Overrides of these settings win. An unusable file stays in the configuration; the checks reject it.
    """
    path = OmegaConf.select(config, f"{FUNCTION}.path")
    if not isinstance(path, str) or is_ours(path):
        return
    overridden = {key_of(text) for text in overrides}
    kwargs = OmegaConf.select(config, KWARGS)
    if isinstance(kwargs, DictConfig) and not overridden & {JUDGE, f"{KWARGS}.{JUDGE}"}:
        with open_dict(kwargs):
            kwargs.pop(JUDGE, None)
    if path != ADAPTER:
        try:
            reward = find_reward(path, config.reward.custom_reward_function.name if NAME in overridden else None)
        except RewardError:
            return
        for name in ("file", "function", "reward_limit"):
            if isinstance(kwargs, DictConfig) and name in kwargs:
                raise BadSetting(f"{KWARGS}.{name}: is set by the call of your function; give the keyword another name")
        OmegaConf.update(config, f"{FUNCTION}.path", ADAPTER)
        OmegaConf.update(config, NAME, "compute_score")
        OmegaConf.update(config, KWARGS, {"file": reward.file, "function": reward.function}, force_add=True)
    key = f"{OVERLONG}.enable"
    if OmegaConf.select(config, key) and not any(name == key or key.startswith(f"{name}.") for name in overridden):
        OmegaConf.update(config, key, False)
        notes.append(f"note: {key}=false, as the reward function is {path}; {key}=true adds the overlong penalty to it")
