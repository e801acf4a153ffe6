"""verl 0.9.1: a reward function that raises, hangs or returns NaN silently loses responses or stops or spoils a run.

verl silently drops a response whose reward raises and trains on the rest of the group; a reward that never returns
stops the run; NaN enters the advantages. With this file, each of these leaves out the response, the reason is written
to LEFT_OUT in the run's directory, and the trainer counts them (trainer.py).

A second fault of the same class: verl always loads the tokenizer in this worker with trust_remote_code=True and ignores
actor_rollout_ref.model.trust_remote_code.

May go when verl limits the time of a reward, rejects NaN, counts the responses it drops, and obeys the key.
"""

import asyncio
import json
import logging
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop import reward_loop
from verl.utils import hf_tokenizer

from rpg.files.atomic import LEFT_OUT, append_record
from rpg.rewards import user_reward

LONGEST = 2000  # characters of a problem or a reason


class RewardLoopWorker(reward_loop.RewardLoopWorker):
    """Requires finite scores within rpg.reward_limit seconds. The class keeps verl's name, which Ray shows."""

    def _init_reward_fn(self) -> None:
        # a package that vLLM's server imports (model_hosting_container_standards) sets the root logger to ERROR
        logging.getLogger("rpg").setLevel(logging.WARNING)
        trusted = self.config.actor_rollout_ref.model.get("trust_remote_code", False)

        def tokenizer(path: str, **arguments: Any) -> Any:
            return hf_tokenizer(path, **{**arguments, "trust_remote_code": trusted})

        reward_loop.hf_tokenizer = tokenizer  # type: ignore[attr-defined]  # in this worker's process only
        super()._init_reward_fn()
        function = self.config.reward.custom_reward_function
        self._in_child = function.path == user_reward.ADAPTER
        if self._in_child:  # import the file now, and limit each call without its wait for a process
            user_reward.call(function.reward_kwargs.file, function.reward_kwargs.get("function"))
            call, limit = self.reward_manager.compute_score, self.config.rpg.reward_limit
            self.reward_manager.compute_score = partial(call, reward_limit=limit)  # type: ignore[arg-type]

    async def compute_score(self, data: DataProto) -> dict:
        """Return verl's result for one response: reward_score and reward_extra_info.

        Raises:
            RuntimeError: the response has no reward; the message names the response and the reason.
        """
        row = {key: values[-1] for key, values in data.non_tensor_batch.items()}
        limit = None if self._in_child else self.config.rpg.reward_limit
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                result = finite(await super().compute_score(data))
            result["reward_extra_info"] |= row_of(row)
        except Exception as error:  # a reward manager or function may raise anything
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, user_reward.RewardError):  # the adapter's message is complete
                why = str(error)
            if clock.expired():
                why = f"the reward took more than {limit} s (rpg.reward_limit)"
            raise RuntimeError(self._left_out(row, why)) from error
        return result

    def _left_out(self, row: dict[str, Any], why: str) -> str:
        """Write a response without a reward to LEFT_OUT; return the message for the log."""
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


def row_of(row: dict[str, Any]) -> dict[str, str]:
    """Return what a saved sample tells of its row, as texts, of which verl makes no means: `rpg score` reads them."""
    extra = json.dumps(row["extra_info"], default=lambda value: getattr(value, "tolist", value.__str__)())
    return {"data_source": str(row["data_source"]), "extra_info": extra}


def finite(result: dict[str, Any]) -> dict[str, Any]:
    """Return a reward with Python's numbers in the place of tensors and arrays.

    The overlong penalty's are tensors, beyond its buffer's start, for which pydantic warns at each response.

    Raises:
        TypeError: the score is not a number.
        ValueError: a number is NaN or Inf.
    """

    def plain(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else value

    score = plain(result["reward_score"])
    extra = {name: plain(value) for name, value in result["reward_extra_info"].items()}
    numbers = {"score": float(score), **{key: value for key, value in extra.items() if isinstance(value, float)}}
    if bad := [f"{key}={value}" for key, value in numbers.items() if not math.isfinite(value)]:
        raise ValueError(f"the reward function returned {', '.join(bad)}")
    return {**result, "reward_score": score, "reward_extra_info": extra}
