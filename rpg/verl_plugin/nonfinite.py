"""What is not a finite number costs one optimizer step, not the run, and never the weights.

verl's engine leaves an optimizer step out whose gradient norm is not finite, which all ranks know alike. Here the loss
of such numbers becomes such a gradient instead of an error on one rank, the step is counted and its rows are noted in
SKIPPED in the run's directory; several in a row end the run.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rpg.files.whole import SKIPPED, append_record

logger = logging.getLogger(__name__)

INPUTS = ("old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights")  # of a loss, beside log_prob


class StepAwareEngine:
    """Mixed in before verl's FSDP engine: remembers on every rank whether the last optimizer step was left out."""

    last_step_skipped = False

    def optimizer_step(self) -> float:
        """As verl's, with its result: the gradient norm, by which it skips."""
        norm = super().optimizer_step()  # type: ignore[misc]
        self.last_step_skipped = not math.isfinite(norm)
        return norm


class FiniteLoss:
    """verl's actor loss, with a gradient of NaN where the loss is not finite or the policy loss refuses its input.

    An error would end one rank, and the others would wait for it. The metrics are then those of the same micro-batch
    with zeros for what is not finite: all ranks need the same ones.
    """

    def __init__(self, actor_loss: Callable[..., tuple[Tensor, dict[str, Any]]]):
        """actor_loss: what verl would call, ppo_loss with its config bound."""
        self.actor_loss = actor_loss

    def __call__(self, model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict[str, Any]]:
        """As verl's ppo_loss."""
        try:
            loss, metrics = self.actor_loss(model_output=model_output, data=data, dp_group=dp_group)
            if loss.detach().isfinite():
                return loss, metrics
            logger.error("the loss is %s", loss.item())
        except FloatingPointError as error:
            logger.error("%s", error)
        clean = data.copy()
        for name in INPUTS:
            if name in clean:
                clean[name] = _zeroed(clean[name])
        output = {**model_output, "log_probs": _zeroed(model_output["log_probs"])}
        loss, metrics = self.actor_loss(model_output=output, data=clean, dp_group=dp_group)
        return loss * math.nan, metrics


def _zeroed(tensor: Tensor) -> Tensor:
    """A tensor, nested or not, with 0 where it is not finite."""
    return torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0)


@dataclass
class SkippedSteps:
    """Optimizer steps that were left out.

    Attributes:
        directory: the run's.
        limit: as many in a row end the run (rpg.nonfinite_limit).
        in_a_row: how many there are at present.
        count: how many there were since this was last set to 0.
    """

    directory: Path
    limit: int
    in_a_row: int = 0
    count: int = 0

    def taken(self) -> None:
        """Note an optimizer step that was not left out."""
        self.in_a_row = 0

    def skipped(self, data: TensorDict, mini_batch: int, rank: int) -> None:
        """Note one that was, and the rows of this rank's part of it.

        Raises:
            FloatingPointError: it is one too many; every rank raises it at the same step.
        """
        self.in_a_row += 1
        self.count += 1
        bad = {name: _count(data[name]) for name in INPUTS if name in data}
        bad = {name: count for name, count in bad.items() if count}
        note = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "mini_batch": mini_batch,
            "rank": rank,
            "not_finite": bad,  # empty: the policy's own log-probs, or their gradient, or on another rank
            "step": int(data["global_steps"][0]) if "global_steps" in data else None,
            "problems": _problems(data) if "raw_prompt" in data else None,
        }
        append_record(self.directory / SKIPPED, note)
        if self.in_a_row >= self.limit:
            raise FloatingPointError(
                f"{self.in_a_row} optimizer steps in a row had a gradient that is not finite (rpg.nonfinite_limit="
                f"{self.limit}); their rows are in {self.directory / SKIPPED}. The weights are those before them; "
                "the same command goes on from the last checkpoint"
            )


def _count(tensor: Tensor) -> int:
    values = tensor.values() if tensor.is_nested else tensor
    return int((~values.isfinite()).sum())


def _problems(data: TensorDict) -> dict[str, str]:
    """Of the rows of a batch: verl's id of the prompt, and its last message."""
    uids: Any = data["uid"]
    prompts: Any = data["raw_prompt"]
    return {uid: messages[-1]["content"] for uid, messages in zip(uids, prompts, strict=True)}


def finite(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics without what is not finite: verl takes means, of which one such value would make nothing."""
    kept = {}
    for key, value in metrics.items():
        numbers = [number for number in value if math.isfinite(number)] if isinstance(value, list) else value
        if numbers == [] or (isinstance(numbers, float) and not math.isfinite(numbers)):
            continue
        kept[key] = numbers
    return kept


def require_finite_weights(module: torch.nn.Module) -> None:
    """This rank's shards of all parameters are finite; with others no step, rollout or checkpoint is any good.

    Raises:
        FloatingPointError: which are not.
    """
    shards = {name: getattr(part, "_local_tensor", part.detach()) for name, part in module.named_parameters()}
    with torch.no_grad():
        whole = torch.stack([shard.isfinite().all() for shard in shards.values()])
    if not whole.all():
        bad = [name for name, good in zip(shards, whole.tolist(), strict=True) if not good]
        raise FloatingPointError(
            f"after the optimizer step {len(bad)} of {len(shards)} parameters are not finite, {bad[0]} among them: "
            "the learning rate is too high for the data type. They are in no checkpoint; lower "
            "actor_rollout_ref.actor.optim.lr and go on from the last one with rpg.resume_changed=true"
        )
