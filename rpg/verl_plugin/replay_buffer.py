"""The order of a batch: responses by prompt, prompts as they were requested. verl's is that of the responses' ends."""

from collections import Counter, defaultdict

import transfer_queue as tq
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from rpg.files.atomic import LEFT_OUT
from rpg.logged import LEFT_OUT_OF_TRAINING, LEFT_OUT_OF_VALIDATION

GROUPS_OF_ONE = "training/groups_of_one"


class BatchByPrompt(ReplayBuffer):
    """verl's replay buffer with batches in the order of their prompts; counts what verl drops silently.

    Attributes:
        config: the full configuration; set, like counts, after construction.
        counts: numbers of responses without a reward and of groups of one, by metric; the trainer takes them.
        filtered: mean reward by group, of the groups that filter_groups drops from the step's batch.
    """

    config: DictConfig
    counts: Counter[str]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.filtered: dict[str, float] = {}
        self._failed = Counter[int]()  # groups, by step

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict]:
        """As in verl; counts what the batch lacks, before verl pads it."""
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        self.count(global_steps, batch.keys, partition_id, batch_size)
        return batch, metrics

    def count(self, step: int, keys: list[str], partition: str, prompts: int) -> None:
        """Count a batch's missing responses and groups of one, by verl's keys prompt_response_part.

        Raises:
            RuntimeError: the missing share exceeds rpg.left_out_limit.
        """
        rollout = self.config.actor_rollout_ref.rollout
        groups = Counter(prompt for prompt, _ in {tuple(key.split("_")[:2]) for key in keys})
        expected = prompts * (rollout.val_kwargs.n if partition == "val" else rollout.n)
        left_out = expected - groups.total()
        self._tell_of_missing(step, left_out, expected, f"responses of {partition} were left out")
        if partition == "val":
            self.counts[LEFT_OUT_OF_VALIDATION] += left_out
        else:
            self.counts[LEFT_OUT_OF_TRAINING] += left_out
            self.counts[GROUPS_OF_ONE] += sum(size == 1 for size in groups.values())

    def _tell_of_missing(self, step: int, count: int, of: int, what: str) -> None:
        report = f"step {step}: {count} of {of} {what}; reasons are in {LEFT_OUT} or the log"
        limit = self.config.rpg.left_out_limit
        if count > limit * of:
            raise RuntimeError(f"{report}. That is more than rpg.left_out_limit={limit} of them")
        if count:
            print(f"warning: {report}")

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

    def _evict_terminal_groups(
        self, global_steps: int, partition_id: str, eviction_reasons: tuple[set[str], set[str], set[str], Counter]
    ) -> tuple[set[str], int, int, dict]:
        """As in verl, whose asynchronous trainers drop and replace a group of which a response failed.

        Raises:
            RuntimeError: the share of such groups in a batch exceeds rpg.left_out_limit.
        """
        _, filtered, failed, _ = eviction_reasons
        self.filtered |= self._mean_rewards(filtered)
        if failed:
            self._failed[global_steps] += len(failed)
            count, of = self._failed[global_steps], self.config.data.train_batch_size
            self._tell_of_missing(global_steps, count, of, "groups failed (rollout or reward) and are sampled again")
        return super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)

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
