"""verl's reward worker, with an answer to a reward function that raises, hangs or returns what is no number.

The response is left out: verl drops what its agent loop could not finish, and the rest of the prompt's group is trained
on. Why is written to LEFT_OUT in the run's directory, and the trainer counts (trainer.py).

It runs a tokenizer's own code only where that is asked for: verl 0.9.1 loads the tokenizer in it with
trust_remote_code=True, whatever actor_rollout_ref.model.trust_remote_code says.
"""

import asyncio
import logging
import math
import time
from pathlib import Path
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop import reward_loop
from verl.utils import hf_tokenizer

from rpg.files.whole import LEFT_OUT, append_record

LONGEST = 2000  # characters of a problem or a reason


class RewardLoopWorker(reward_loop.RewardLoopWorker):
    """Its scores are finite numbers, and come within rpg.reward_limit seconds. Under verl's name, which Ray shows."""

    def _init_reward_fn(self) -> None:
        # a package that vLLM's server imports (model_hosting_container_standards) sets the root logger to ERROR
        logging.getLogger("rpg").setLevel(logging.WARNING)
        trusted = self.config.actor_rollout_ref.model.get("trust_remote_code", False)

        def tokenizer(path: str, **arguments: Any) -> Any:
            return hf_tokenizer(path, **{**arguments, "trust_remote_code": trusted})

        reward_loop.hf_tokenizer = tokenizer  # type: ignore[attr-defined]  # of this worker's process alone
        super()._init_reward_fn()

    async def compute_score(self, data: DataProto) -> dict:
        """verl's result for one response: reward_score and reward_extra_info.

        Raises:
            RuntimeError: there is none; the message says which response and why.
        """
        limit = self.config.rpg.reward_limit
        try:
            async with asyncio.timeout(limit):
                result = await super().compute_score(data)
            require_numbers(result)
        except TimeoutError:
            why = f"the reward took more than {limit} s (rpg.reward_limit)"
            raise RuntimeError(self._left_out(data, why)) from None
        except Exception as error:  # whatever a user's function raises
            raise RuntimeError(self._left_out(data, f"{type(error).__name__}: {error}")) from error
        return result

    def _left_out(self, data: DataProto, why: str) -> str:
        """Note a response that has no reward; the sentence for the log."""
        row = {key: values[-1] for key, values in data.non_tensor_batch.items()}
        problem = row["raw_prompt"][-1]["content"]
        note = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "step": int(row["global_steps"]),
            "uid": str(row["uid"]),
            "data_source": str(row["data_source"]),
            "problem": str(problem)[:LONGEST],
            "why": why[:LONGEST],
        }
        append_record(Path(self.config.trainer.default_local_dir) / LEFT_OUT, note)
        return f"{note['uid']} of {note['data_source']}: {note['why']}"


def require_numbers(result: dict[str, Any]) -> None:
    """The score, and every number beside it, is finite.

    Raises:
        TypeError: the score is no number.
        ValueError: a number is not finite.
    """
    score = float(result["reward_score"])
    numbers = {key: value for key, value in result["reward_extra_info"].items() if isinstance(value, float)}
    bad = [f"{key}={value}" for key, value in {"score": score, **numbers}.items() if not math.isfinite(value)]
    if bad:
        raise ValueError(f"the reward function returned {', '.join(bad)}")


def install() -> None:
    """Have the reward loops that this process starts take ours."""
    reward_loop.RewardLoopWorker = RewardLoopWorker  # type: ignore[misc]
