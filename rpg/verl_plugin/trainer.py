"""verl's synchronous trainer with our worker in it: a reference without verl's KL terms, and its metrics.

verl builds a reference model and evaluates it where one of its own KL terms asks for it
(`use_kl_loss`, `use_kl_in_reward`). The RPG losses contain their KL, so these terms are off, and the trainer
below asks for the reference itself.
"""

from dataclasses import asdict
from typing import Any

import ray
from omegaconf import DictConfig, open_dict
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rpg.verl_plugin.reference_settings import ReferenceSettings
from rpg.verl_plugin.worker import RPGActorRolloutRefWorker


class RPGTrainerSync(PPOTrainerSync):
    """PPOTrainerSync whose workers are RPGActorRolloutRefWorker."""

    def __init__(self, config: DictConfig):
        """config: the whole configuration of verl's trainer."""
        self.reference_settings = ReferenceSettings.of(config)
        with open_dict(config.actor_rollout_ref):
            config.actor_rollout_ref.rpg_reference = asdict(self.reference_settings)
        super().__init__(config)
        if self.reference_settings.has_model:
            self.use_reference_policy = True

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        role = Role.ActorRollout
        if role not in self.role_worker_mapping:  # verl itself wants a reference
            role = Role.ActorRolloutRef
        with_reference = Role.ActorRolloutRef if self.reference_settings.has_model else role
        del self.role_worker_mapping[role]
        self.role_worker_mapping[with_reference] = ray.remote(RPGActorRolloutRefWorker)
        self.mapping[with_reference] = self.mapping.pop(role)

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        batch = super()._update_actor(batch, metrics)
        for key in [key for key in metrics if key.startswith("actor/reference/")]:
            metrics[key.removeprefix("actor/")] = metrics.pop(key)  # verl prefixes all that the actor reports
        return batch


def install() -> None:
    """Have verl take RPGTrainerSync for trainer mode sync, in this process."""
    TRAINER_REGISTRY["sync"] = RPGTrainerSync  # verl's own register_trainer refuses a second holder of a name
