"""verl's TaskRunner with what verl has no key for: the replay buffer's poll interval, manifests, and our trainer."""

import functools

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1

from rpg.verl_plugin import checkpoints, file_logger, reward_worker, schedule_free
from rpg.verl_plugin.reference_settings import ReferenceSettings

_VerlTaskRunner = TaskRunnerV1.__ray_metadata__.modified_class


@ray.remote
class RPGTaskRunner(_VerlTaskRunner):
    """verl's V1 task runner; passed to verl's run_ppo, whose argument task_runner_class is for this."""

    def run(self, config: DictConfig) -> None:
        """Continue metrics.jsonl, set rpg.poll_interval as the replay buffer's default, then train as verl does.

        A run with a reference of its own or the schedule-free optimizer gets verl's trainer with our worker in it. The
        checkpoints of every run get a manifest, and its reward workers run no tokenizer's code unasked.
        """
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
        from verl.utils.import_utils import import_external_libs

        file_logger.install()
        reward_worker.install()
        import_external_libs(config.actor_rollout_ref.model.external_lib)  # verl does so in its workers alone
        ReplayBuffer.__init__ = functools.partialmethod(  # type: ignore[method-assign]
            ReplayBuffer.__init__, poll_interval=config.rpg.poll_interval
        )
        if ReferenceSettings.of(config).has_model or schedule_free.asked_for(config.actor_rollout_ref.actor.optim):
            from rpg.verl_plugin.trainer import install

            install()
        checkpoints.install(config.trainer.v1.trainer_mode)
        super().run(config)
