"""Count skipped optimizer steps, record them in SKIPPED in the run's directory, and stop the run after several.

NaN or Inf skips one optimizer step instead of ending the run (actor_loss.py), and never reaches the weights.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from rpg.files.atomic import SKIPPED, append_record
from rpg.verl_plugin.actor_loss import INPUTS
from rpg.verl_plugin.reference import local


@dataclass
class StepGuard:
    """Counts the optimizer steps that verl's engine skipped, and ends the run after several in a row.

    Attributes:
        directory: the run's directory.
        limit: number of consecutive skipped steps that ends the run (rpg.nonfinite_limit).
        in_a_row: skipped steps since the last completed one.
        skipped: number of skipped steps since it was last reset.
    """

    directory: Path
    limit: int
    in_a_row: int = 0
    skipped: int = 0

    def record_step(self) -> None:
        """Record a completed optimizer step."""
        self.in_a_row = 0

    def record_skip(self, data: TensorDict, mini_batch: int, rank: int) -> None:
        """Record a skipped step with the non-finite inputs of this rank's rows.

        Raises:
            FloatingPointError: the limit is reached; every rank raises it at the same step.
        """
        self.in_a_row += 1
        self.skipped += 1
        inputs: dict[str, Any] = {name: data[name] for name in INPUTS if name in data}
        # all 0: the cause is in the policy's log-probs, their gradient, or another rank's rows
        counts = {name: int((~nested.values().isfinite()).sum()) for name, nested in inputs.items()}
        prompts: Any = zip(data["uid"], data["raw_prompt"], strict=True) if "raw_prompt" in data else ()
        note = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "mini_batch": mini_batch,
            "rank": rank,
            "not_finite": {name: count for name, count in counts.items() if count},
            "step": int(data["global_steps"][0]) if "global_steps" in data else None,
            "problems": {uid: messages[-1]["content"] for uid, messages in prompts},
        }
        append_record(self.directory / SKIPPED, note)
        if self.in_a_row >= self.limit:
            raise FloatingPointError(
                f"{self.in_a_row} optimizer steps in a row had a gradient that is not finite (rpg.nonfinite_limit="
                f"{self.limit}); their rows are in {self.directory / SKIPPED}. The weights are those before them; "
                "the same command continues from the last checkpoint"
            )


def finite(metrics: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the metrics that are finite; NaN or Inf would spoil verl's means."""
    kept = {key: [value for value in values if math.isfinite(value)] for key, values in metrics.items()}
    return {key: values for key, values in kept.items() if values}


def require_finite_weights(module: torch.nn.Module) -> None:
    """Check this rank's shards of all parameters.

    Raises:
        FloatingPointError: a parameter holds NaN or Inf; the message names one.
    """
    whole = {name: local(part.detach()).isfinite().all() for name, part in module.named_parameters()}
    if not torch.stack([*whole.values()]).all():  # one transfer from the device
        bad = [name for name, good in whole.items() if not good]
        raise FloatingPointError(
            f"after the optimizer step {len(bad)} of {len(whole)} parameters are not finite, {bad[0]} among them: "
            "the learning rate is too high for the data type. No checkpoint has them; lower "
            "actor_rollout_ref.actor.optim.lr and resume from the last one with rpg.resume_changed=true"
        )
