"""Warnings about a training step."""

import pytest
from omegaconf import OmegaConf

from rpg.verl_plugin.step_warnings import StepWarnings


def step(reward: float, advantage: float, **more: float) -> dict:
    return {"critic/score/max": reward, "critic/score/min": 0.0, "critic/advantages/max": advantage,
            "critic/advantages/min": -advantage, **more}  # fmt: skip


NOTHING, GROUPS, GOOD = step(0.0, 0.0), step(1.0, 0.0), step(1.0, 0.5)
LOW, WHOLE, NOISY = (
    {**GOOD, "training/off_policy/mass": mass, "training/off_policy/mass_error": error}
    for mass, error in ((0.9466, 0.002), (1.0015, 0.001), (0.9909, 0.0028))
)


@pytest.mark.parametrize(
    ("steps", "mode", "said"),
    [
        ([NOTHING, GOOD, NOTHING], "sync", ""),
        ([GOOD, *[NOTHING] * 3], "sync", "step 3: twice every response got the reward 0, so nothing can be learned"),
        ([GROUPS, GROUPS], "sync", "step 2: twice rewards were equal in every group, so nothing can be learned"),
        ([LOW, LOW], "sync", "step 1: training/off_policy/mass=0.9466 is not 1: the rollouts cannot sample every"),
        ([WHOLE, LOW], "sync", ""),  # noise, of a policy that has moved
        ([NOISY, LOW], "sync", ""),  # 512 tokens of two engines in bfloat16: 3 standard errors
        ([LOW], "colocate_async", ""),
    ],
)
def test_the_warnings_of_steps(capsys, steps, mode, said):
    rollout = {"top_p": 0.8, "top_k": -1}
    config = {"actor_rollout_ref": {"rollout": rollout}, "trainer": {"v1": {"trainer_mode": mode}}}
    warnings = StepWarnings(OmegaConf.create(config))
    for number, metrics in enumerate(steps, 1):
        warnings.show(number, metrics)
    told = capsys.readouterr().out
    assert said in told
    assert told.count("warning") == bool(said)
