"""The order of a batch: responses by prompt, prompts as they were requested. verl's is that of the responses' ends."""

from collections import Counter, defaultdict
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync


class BatchByPrompt(ReplayBuffer):
    """verl's replay buffer with batches in the order of their prompts; tells the trainer what verl drops silently.

    Attributes:
        trainer: the RPGTrainer whose counters are used; set after construction.
    """

    trainer: Any

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict]:
        """As in verl; adds counts of what the batch lacks, before verl pads it."""
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        return batch, metrics | self.trainer.count(batch.keys, partition_id, batch_size)

    def _materialize_batch(
        self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: dict[str, dict]
    ) -> KVBatchMeta:
        """As in verl, with the responses of a prompt together, and prompts in the order in which they were requested.

        verl's order is that in which responses ended. The first mini-batches would hold the short responses of all
        groups, and the last, furthest from pi_old, the long ones; a token of the former would weigh up to seven times
        as much (token-mean). In the release mini-batches follow the prompts, up to the balancing over ranks.
        """
        batch = super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)
        requested = {prompt: number for number, prompt in enumerate(self.prompt_global_steps[partition_id])}

        def place(row: int) -> tuple[int, int, int]:
            prompt, session, part = batch.keys[row].split("_")
            return requested[prompt], int(session), int(part)

        batch.reorder(sorted(range(len(batch.keys)), key=place))
        return batch

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter]:
        stale, filtered, failed, rewards = super()._terminal_eviction_reasons(global_steps, partition_id)
        if partition_id == "train":
            self.trainer.note_failed(failed)
            self.trainer.filtered |= self._mean_rewards(filtered - self.trainer.filtered.keys())
        return stale, filtered, failed, rewards

    def _mean_rewards(self, groups: set[str]) -> dict[str, float]:
        """Return the mean reward of each group of the partition "train", before verl clears it."""
        rewards: dict[str, list[float]] = defaultdict(list)
        if keys := [key for key in self.partitions["train"] if key.split("_")[0] in groups]:
            data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["rm_scores"])
            for key, scores in zip(keys, data["rm_scores"], strict=True):
                rewards[key.split("_")[0]].append(float(scores.sum()))
        return {group: sum(values) / len(values) for group, values in rewards.items()}


class BatchByPromptAsync(BatchByPrompt, ReplayBufferAsync):
    """The same for asynchronous trainers."""
