"""An external_lib of verl's that writes down what every optimizer step's loss was given and which ratio it used.

It takes the place of rpg.verl_plugin.rollout, and imports it. File n.pt in the directory that RPG_TEST_LOSS_RECORDS
names holds a list of responses: all that the actor's n-th batch had, in the order in which the loss saw them, with
the versions of the weights between which each was written.
"""

import os
from pathlib import Path
from typing import Any

import torch
from verl.workers.utils.padding import no_padding_2_padding

import rpg.verl_plugin.rollout  # noqa: F401 - what this module stands in for
from rpg.objectives import token_loss
from rpg.verl_plugin import actor_loss, policy_loss, worker

DIRECTORY = "RPG_TEST_LOSS_RECORDS"
FIELDS = ("prompts", "responses", "response_mask", "old_log_probs", "rollout_log_probs", "advantages")

_ratios: list[torch.Tensor] = []
_responses: list[dict[str, Any]] = []
_batches = 0

_summary, _call = policy_loss.token_loss_summary, actor_loss.ActorLoss.__call__
_train = worker.RPGActor.train_mini_batch


def _recorded_summary(spec, **tensors):
    _ratios.append(token_loss(spec, **tensors)[1].ratio)
    return _summary(spec, **tensors)


def _recorded_call(self, model_output, data, dp_group=None):
    result = _call(self, model_output, data, dp_group)
    log_prob = no_padding_2_padding(model_output["log_probs"], data).detach()
    ratio = _ratios.pop()
    rows = {name: data[name].unbind() for name in FIELDS if name in data}
    for i, mask in enumerate(rows["response_mask"]):
        row = {name: values[i].clone() for name, values in rows.items()}
        row |= {"log_prob": log_prob[i, : len(mask)].clone(), "ratio": ratio[i, : len(mask)].clone()}
        wrote = data["extra_fields"][i]
        _responses.append(row | {name: wrote[name] for name in ("min_global_steps", "max_global_steps")})
    return result


def _recorded_train(self, data):
    global _batches
    output = _train(self, data)
    _batches += 1
    torch.save(list(_responses), Path(os.environ[DIRECTORY]) / f"{_batches}.pt")
    _responses.clear()
    return output


if DIRECTORY in os.environ:
    policy_loss.token_loss_summary = _recorded_summary
    actor_loss.ActorLoss.__call__ = _recorded_call
    worker.RPGActor.train_mini_batch = _recorded_train
