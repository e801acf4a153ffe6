"""Count skipped optimizer steps, record them in SKIPPED in the run's directory, and stop the run after several.

NaN or Inf skips one optimizer step instead of ending the run (actor_loss.py), and never reaches the weights.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensordict import TensorDict

from rpg.files.atomic import SKIPPED, append_record
from rpg.verl_plugin.actor_loss import INPUTS


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
