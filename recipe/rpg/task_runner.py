"""verl's TaskRunner with the one thing that verl has no key for: the replay buffer's poll interval."""

import functools

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1

_VerlTaskRunner = TaskRunnerV1.__ray_metadata__.modified_class


@ray.remote
class RPGTaskRunner(_VerlTaskRunner):
    """verl's V1 task runner; passed to verl's run_ppo, whose argument task_runner_class is for this."""

    def run(self, config: DictConfig) -> None:
        """Set rpg.poll_interval as the replay buffer's default, then train as verl does."""
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

        ReplayBuffer.__init__ = functools.partialmethod(  # type: ignore[method-assign]
            ReplayBuffer.__init__, poll_interval=config.rpg.poll_interval
        )
        super().run(config)
