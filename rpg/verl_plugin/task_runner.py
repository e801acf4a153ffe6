"""verl's TaskRunner with a poll interval, our reward worker and our trainer, for which verl has no keys."""

import functools

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1

from rpg.verl_plugin.patches import file_logger, reward_worker

_VerlTaskRunner = TaskRunnerV1.__ray_metadata__.modified_class  # type: ignore[attr-defined]


@ray.remote
class RPGTaskRunner(_VerlTaskRunner):
    """verl's V1 task runner, passed to verl's run_ppo as task_runner_class."""

    def run(self, config: DictConfig) -> None:
        """Continue metrics.jsonl, set rpg.poll_interval as the replay buffer's default, then train as verl does.

        Uses verl's trainer of the configured mode with our mixin.
        """
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
        from verl.utils.import_utils import import_external_libs

        from rpg.verl_plugin.trainer import install

        file_logger.install()
        reward_worker.install()
        import_external_libs(config.actor_rollout_ref.model.external_lib)  # verl does so only in its workers
        ReplayBuffer.__init__ = functools.partialmethod(  # type: ignore[method-assign]
            ReplayBuffer.__init__, poll_interval=config.rpg.poll_interval
        )
        install(config.trainer.v1.trainer_mode)
        super().run(config)
