"""The estimators in verl's registry, where the entry point puts them, called like verl's trainer does."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from rpg.checks.loss import WITH_GROUPS


def proto():
    # rewards 1, 0, 1, 1; uid a = rows 0, 2 (mean 1), b = rows 1, 3 (mean 1/2); batch mean 3/4
    rewards = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]])
    return DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": np.array(["a", "b", "a", "b"], dtype=object)},
    )


@pytest.mark.parametrize(
    ("name", "by_row"), [("rpg", [0.0, -0.5, 0.0, 0.5]), ("rpg_batchmean", [0.25, -0.75, 0.25, 0.25])]
)
def test_through_verls_compute_advantage(name, by_row):
    data = compute_advantage_for_multi_trajectories(
        proto(),
        batch_keys=[f"{uid}_{i}_0" for i, uid in enumerate("abab")],
        adv_estimator=name,
        config=OmegaConf.create({}),
    )
    expected = torch.tensor(by_row).unsqueeze(-1) * data.batch["response_mask"]
    assert torch.equal(data.batch["advantages"], expected)
    assert torch.equal(data.batch["returns"], expected)


@pytest.mark.parametrize("name", WITH_GROUPS)
def test_in_groups_of_one_the_advantage_is_the_reward(name):
    """gpg multiplies it by one number for all responses."""
    rewards = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, -2.0]])
    uid = np.array(["a", "b", "c"], dtype=object)
    found, _ = core_algos.ADV_ESTIMATOR_REGISTRY[name](rewards.clone(), torch.ones(3, 2), index=uid, config=None)
    assert torch.allclose(found[:, -1] / found[0, -1], rewards[:, -1])
