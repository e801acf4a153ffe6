"""An external_lib of verl's that updates the actor twice from one batch: with pi_old = behavior, and as configured.

It takes the place of rpg.verl_plugin.rollout, and imports it. The first update is taken back before the second. File
n.pt in the directory that RPG_TEST_BOTH_UPDATES names holds the weights before the n-th batch and after each of both.
"""

import copy
import os
from pathlib import Path

import torch

import rpg.verl_plugin.rollout  # noqa: F401 - what this module stands in for
from rpg.verl_plugin.reference import copy_shards, local
from rpg.verl_plugin.worker import RPGActor

DIRECTORY = "RPG_TEST_BOTH_UPDATES"

_train = RPGActor.train_mini_batch


def _weights(actor: RPGActor) -> dict[str, torch.Tensor]:
    return {name: local(tensor).clone() for name, tensor in actor.engine.module.state_dict().items()}


def _train_twice(self: RPGActor, data):
    before, engine = _weights(self), self.engine
    states = [copy.deepcopy(part.state_dict()) for part in (engine.optimizer, engine.lr_scheduler)]
    behavior = data.copy()
    behavior["old_log_probs"] = behavior["rollout_log_probs"]  # what verl's V1 trainer does under bypass_mode
    _train(self, behavior)
    after = {"before": before, "behavior": _weights(self)}
    copy_shards(before, engine.module.state_dict())
    for part, state in zip((engine.optimizer, engine.lr_scheduler), states, strict=True):
        part.load_state_dict(state)
    output = _train(self, data)
    directory = Path(os.environ[DIRECTORY])
    torch.save(after | {"recomputed": _weights(self)}, directory / f"{len(list(directory.iterdir())) + 1}.pt")
    return output


if DIRECTORY in os.environ:
    RPGActor.train_mini_batch = _train_twice
