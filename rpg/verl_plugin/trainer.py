"""verl's trainers with our worker: a reference without verl's KL terms and counts of left-out responses.

verl builds and evaluates a reference model only for its own KL terms (`use_kl_loss`, `use_kl_in_reward`). The RPG
losses contain their KL, so these terms are off, and the trainer below requests the reference itself.
"""

from collections import Counter
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_to_nested

from rpg.logged import ALL_GROUPS, BATCH, LEFT_OUT_OF_TRAINING, LEFT_OUT_OF_VALIDATION
from rpg.names import LOSSES
from rpg.objectives import later_kl_baseline
from rpg.verl_plugin import watchdog
from rpg.verl_plugin.checkpoints import CompleteCheckpoints
from rpg.verl_plugin.policy_loss import spec_from_actor_config
from rpg.verl_plugin.replay_buffer import GROUPS_OF_ONE, BatchByPrompt
from rpg.verl_plugin.step_warnings import StepWarnings
from rpg.verl_plugin.worker import RPGActorRolloutRefWorker

SKIPPED = "actor/skipped_steps"


class RPGTrainer(PPOTrainer):
    """Mixin before one of verl's trainers; its workers are RPGActorRolloutRefWorker."""

    replay_buffer: BatchByPrompt

    def __init__(self, config: DictConfig):
        """config: the full configuration of verl's trainer."""
        self.has_reference = config.rpg.reference.mode != "old"  # pi_ref needs a forward pass
        with open_dict(config.actor_rollout_ref):
            config.actor_rollout_ref.rpg = config.rpg  # which workers do not get
        self._asked = Counter[int]()  # prompts beyond the first batch, by step
        self._counts = Counter[str]()  # of what is missing since the last record, by metric
        self._warnings = StepWarnings(config)
        super().__init__(config)
        optimizer = config.actor_rollout_ref.actor.optim
        if optimizer.lr_warmup_steps > 0:  # of batches, as under other schedules: verl's scheduler counts their parts
            optimizer.lr_warmup_steps *= self.parameter_sync_step
        if self.has_reference:
            self.use_reference_policy = True

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        workers = self.role_worker_mapping
        adapter = self.config.actor_rollout_ref.model.get("lora_rank")  # pi_ref is the actor without its adapter
        if self.has_reference and not adapter and Role.ActorRollout in workers:  # verl would build no reference
            for mapping in (workers, self.mapping):
                mapping[Role.ActorRolloutRef] = mapping.pop(Role.ActorRollout)
        for role in {Role.ActorRollout, Role.ActorRolloutRef} & workers.keys():  # verl has one of them
            workers[role] = ray.remote(RPGActorRolloutRefWorker)

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        """As in verl, with actor/entropy a mean over tokens: verl aggregates it as the loss."""
        actor = self.config.actor_rollout_ref.actor
        of_loss, actor.loss_agg_mode = actor.loss_agg_mode, "token-mean"
        batch = super()._compute_old_log_prob(batch, metrics)
        actor.loss_agg_mode = of_loss
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        """As in verl; with kl_scope=response and a reference also the baseline of the later KL terms, as a field."""
        actor = self.config.actor_rollout_ref.actor
        loss = actor.policy_loss.loss_mode
        if self.has_reference and loss in LOSSES and spec_from_actor_config(loss, actor).has_later:
            assert batch.partition_id is not None  # verl names one for every batch of a step
            fields = ["uid", "response_mask", "old_log_probs", "ref_log_prob"]
            data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
            padded = data.select(*fields[1:]).to_padded_tensor()
            baseline = later_kl_baseline(
                padded["old_log_probs"], padded["ref_log_prob"], padded["response_mask"], list(data["uid"])
            )
            nested = TensorDict(
                {"kl_baseline": response_to_nested(baseline, data["response_mask"])}, batch_size=len(batch.keys)
            )
            tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=nested)
        return super()._compute_advantage(batch, metrics)

    def on_step_end(self) -> None:
        """As in verl; the step counts as progress for rpg.stall_limit."""
        super().on_step_end()
        watchdog.arm(self.config.rpg.stall_limit, self.config.rpg.time_limit)

    def _validate(self) -> dict[str, float]:
        """As in verl, with the number of responses without a reward, which accuracy counts as wrong; it is progress."""
        metrics = super()._validate()
        watchdog.arm(self.config.rpg.stall_limit, self.config.rpg.time_limit)
        return metrics | self._take(LEFT_OUT_OF_VALIDATION)

    def _take(self, *metrics: str) -> dict[str, float]:
        """Return these counts, and begin them anew: verl would average them over the parts of a batch."""
        return {metric: self._counts.pop(metric, 0) for metric in metrics}

    def _refill(self, num_prompts: int) -> int:
        """Request prompts for those that the replay buffer dropped, up to max_num_gen_batches batches per step."""
        self._asked[self.global_steps] += num_prompts
        batch, limit = self.config.data.train_batch_size, self.config.algorithm.filter_groups.max_num_gen_batches
        if limit and self._asked[self.global_steps] > (limit - 1) * batch:  # verl requests the first batch itself
            raise RuntimeError(
                f"step {self.global_steps}: of {limit} x {batch} prompts fewer than {batch} have responses with "
                f"different rewards (algorithm.filter_groups.max_num_gen_batches={limit}): the problems are too easy "
                "or too hard, or the reward function gives every response the same reward"
            )
        watchdog.arm(self.config.rpg.stall_limit, self.config.rpg.time_limit)  # responses have arrived: no stall
        return self._add_prompts_to_generate(num_prompts)

    def _build_replay_buffer(self) -> BatchByPrompt:
        """Return verl's replay buffer, a BatchByPrompt (task_runner.py), connected to this trainer."""
        buffer = super()._build_replay_buffer()
        assert isinstance(buffer, BatchByPrompt)
        buffer.config, buffer.counts = self.config, self._counts
        buffer.refill_fn, buffer.poll_interval = self._refill, self.config.rpg.poll_interval
        return buffer

    def _compute_metrics(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> None:
        """As in verl, with counts and the mean reward before filter_groups drops groups; surplus ones count as kept."""
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        metrics |= self._take(LEFT_OUT_OF_TRAINING, GROUPS_OF_ONE, SKIPPED)
        if self.config.algorithm.filter_groups.enable:
            rows = zip(batch.keys, batch.tags, strict=True)
            kept = len({key.split("_")[0] for key, tag in rows if not tag.get("is_padding", False)})
            kept += metrics.get("training/filter_groups/discarded_surplus_samples", 0)
            filtered, self.replay_buffer.filtered = self.replay_buffer.filtered, {}
            metrics[ALL_GROUPS] = (kept * metrics[BATCH] + sum(filtered.values())) / (kept + len(filtered))
        self._warnings.show(self.global_steps, metrics)

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        """As in verl, without the "actor/" that it puts before metrics of ours that are none of the actor."""
        batch = super()._update_actor(batch, metrics)
        self._counts[SKIPPED] += metrics.pop(SKIPPED)
        for key in [key for key in metrics if key.startswith(("actor/reference/", "actor/training/"))]:
            metrics[key.removeprefix("actor/")] = metrics.pop(key)
        return batch


class RPGTrainerSync(RPGTrainer, CompleteCheckpoints, PPOTrainerSync):
    """verl's synchronous trainer with the above."""


class RPGTrainerColocateAsync(RPGTrainer, CompleteCheckpoints, PPOTrainerColocateAsync):
    """verl's trainer whose rollouts are batches ahead on the same GPUs, with the above."""


class RPGTrainerSeparateAsync(RPGTrainer, CompleteCheckpoints, PPOTrainerSeparateAsync):
    """verl's trainer whose rollouts have GPUs of their own, with the above."""


# by verl's names of modes: verl treats every mode but the literal "sync" as asynchronous
TRAINERS = {
    "sync": RPGTrainerSync,
    "colocate_async": RPGTrainerColocateAsync,
    "separate_async": RPGTrainerSeparateAsync,
}
