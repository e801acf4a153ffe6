"""verl's TaskRunner with our reward worker, our trainers and a watchdog, for which verl has no keys."""

import faulthandler

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1

from rpg import verl_plugin
from rpg.verl_plugin import external, watchdog
from rpg.verl_plugin.patches import bootstrap, file_logger, reward_worker

_VerlTaskRunner = TaskRunnerV1.__ray_metadata__.modified_class  # type: ignore[attr-defined]


@ray.remote
class RPGTaskRunner(_VerlTaskRunner):
    """verl's V1 task runner, passed to verl's run_ppo as task_runner_class."""

    def run(self, config: DictConfig) -> None:
        """Continue metrics.jsonl, then train as verl does, with verl's trainer of the configured mode and our mixin."""
        from rpg.verl_plugin import trainer

        watchdog.arm(config.rpg.stall_limit, config.rpg.time_limit)
        bootstrap.install()
        file_logger.install()
        reward_worker.install()
        verl_plugin.install()  # verl imports external_lib only in its workers
        for name in config.rpg.external_lib:
            external.load(name)
        trainer.install()
        try:
            super().run(config)
        finally:
            faulthandler.cancel_dump_traceback_later()
