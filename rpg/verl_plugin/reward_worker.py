"""verl's reward worker, which runs a tokenizer's own code only where that is asked for.

verl 0.9.1 loads the tokenizer in it with trust_remote_code=True, whatever actor_rollout_ref.model.trust_remote_code
says.
"""

from typing import Any

from verl.experimental.reward_loop import reward_loop
from verl.utils import hf_tokenizer


class RewardLoopWorker(reward_loop.RewardLoopWorker):
    """Under verl's name, which Ray shows."""

    def _init_reward_fn(self) -> None:
        trusted = self.config.actor_rollout_ref.model.get("trust_remote_code", False)

        def tokenizer(path: str, **arguments: Any) -> Any:
            return hf_tokenizer(path, **{**arguments, "trust_remote_code": trusted})

        reward_loop.hf_tokenizer = tokenizer  # type: ignore[attr-defined]  # of this worker's process alone
        super()._init_reward_fn()


def install() -> None:
    """Have the reward loops that this process starts take ours."""
    reward_loop.RewardLoopWorker = RewardLoopWorker  # type: ignore[misc]
