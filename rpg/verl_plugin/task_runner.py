"""verl's TaskRunner with what verl has no keys for: our trainers, reward worker, log and a watchdog."""

import faulthandler

import ray
from omegaconf import DictConfig
from verl.experimental.reward_loop import reward_loop
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo import metric_utils
from verl.utils import tracking

from rpg.verl_plugin import external, watchdog
from rpg.verl_plugin.patches.bootstrap import bootstrap_metric
from rpg.verl_plugin.patches.file_logger import AppendingFileLogger
from rpg.verl_plugin.patches.reward_worker import RewardLoopWorker


def install() -> None:
    """Replace what verl looks up in the task runner's process."""
    from verl.trainer.ppo.v1 import trainer_base

    from rpg.verl_plugin import replay_buffer, trainer

    trainer_base.TRAINER_REGISTRY.update(trainer.TRAINERS)  # verl's register_trainer rejects a known name
    trainer_base.ReplayBuffer = replay_buffer.BatchByPrompt  # type: ignore[misc]
    trainer_base.ReplayBufferAsync = replay_buffer.BatchByPromptAsync  # type: ignore[misc]
    reward_loop.RewardLoopWorker = RewardLoopWorker  # type: ignore[misc]
    metric_utils.bootstrap_metric = bootstrap_metric
    tracking.FileLogger = AppendingFileLogger  # type: ignore[assignment, misc]


@ray.remote
class RPGTaskRunner(TaskRunnerV1.__ray_metadata__.modified_class):  # type: ignore[attr-defined]
    """verl's V1 task runner, passed to verl's run_ppo as task_runner_class."""

    def run(self, config: DictConfig) -> None:
        """Continue metrics.jsonl, then train as verl does, with verl's trainer of the configured mode and our mixin."""
        watchdog.arm(config.rpg.stall_limit, config.rpg.time_limit)
        install()
        for name in config.rpg.external_lib:
            external.load(name)
        try:
            super().run(config)
        finally:
            faulthandler.cancel_dump_traceback_later()
