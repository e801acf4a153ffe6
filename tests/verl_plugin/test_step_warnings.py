"""Warnings about a training step."""

import pytest
from omegaconf import OmegaConf

from rpg.verl_plugin.step_warnings import StepWarnings


def warnings(steps: list[dict], mode: str = "sync") -> str:
    """Print the warnings of these steps' metrics."""
    rollout = {"top_p": 0.8, "top_k": -1}
    config = {"actor_rollout_ref": {"rollout": rollout}, "trainer": {"v1": {"trainer_mode": mode}}}
    told = StepWarnings(OmegaConf.create(config))
    for number, metrics in enumerate(steps, 1):
        told.show(number, metrics)


def step(reward: float, advantage: float, **more: float) -> dict:
    return {"critic/score/max": reward, "critic/score/min": 0.0, "critic/advantages/max": advantage,
            "critic/advantages/min": -advantage, **more}  # fmt: skip


NOTHING, GROUPS, GOOD = step(0.0, 0.0), step(1.0, 0.0), step(1.0, 0.5)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([NOTHING, GOOD, NOTHING], ""),
        ([GOOD, *[NOTHING] * 3], "warning: step 3: twice every response got the reward 0, so nothing can be learned"),
        ([GROUPS, GROUPS], "warning: step 2: twice rewards were equal in every group, so nothing can be learned"),
    ],
)
def test_rewards_that_teach_nothing(capsys, steps, said):
    warnings(steps)
    told = capsys.readouterr().out
    assert said in told
    assert told.count("warning") == bool(said)


LOW, WHOLE, NOISY = (
    {**GOOD, "training/off_policy/mass": mass, "training/off_policy/mass_error": error}
    for mass, error in ((0.9466, 0.002), (1.0015, 0.001), (0.9909, 0.0028))
)


@pytest.mark.parametrize(
    ("steps", "mode", "count"),
    [
        ([LOW, LOW], "sync", 1),
        ([WHOLE, LOW], "sync", 0),  # noise, of a policy that has moved
        ([NOISY, LOW], "sync", 0),  # 512 tokens of two engines in bfloat16: 3 standard errors
        ([LOW], "colocate_async", 0),
    ],
)
def test_rollouts_that_cannot_sample_every_token(capsys, steps, mode, count):
    warnings(steps, mode)
    assert capsys.readouterr().out.count("mass=0.9466") == count
