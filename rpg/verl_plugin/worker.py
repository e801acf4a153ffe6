"""verl's worker with a reference that moves and an optimizer that switches; used only by runs that ask for it."""

from pathlib import Path
from typing import Any

import verl.utils.tensordict_utils as tu
from tensordict import TensorDict
from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from rpg.verl_plugin import schedule_free
from rpg.verl_plugin.reference import Reference, ReferenceLoss
from rpg.verl_plugin.reference_settings import ReferenceSettings


class RPGActor(TrainingWorker):
    """verl's actor, which tells its reference how far it has come and saves and loads it with itself."""

    reference: Reference | None = None
    _steps = 0

    def train_batch(self, data: TensorDict) -> TensorDict:
        """One optimizer step on one mini-batch."""
        output = super().train_batch(data)
        self._steps += 1
        return output

    def train_mini_batch(self, data: TensorDict) -> TensorDict | None:
        """All optimizer steps of an iteration; adds the metrics of the reference to verl's."""
        self._steps = 0
        output = super().train_mini_batch(data)
        if self.reference is not None:
            assert isinstance(self.loss_fn, ReferenceLoss)
            kl = self.loss_fn.kl.take(self.engine.get_data_parallel_group())
            self.reference.end_iteration(self._steps, kl)
            if output is not None:  # None on all but one rank of a sequence-parallel group
                tu.get(output, "metrics").update(self.reference.metrics())
        return output

    def save_checkpoint(self, local_path, hdfs_path=None, global_step=0, max_ckpt_to_keep=None) -> None:
        """The actor into local_path as verl does, the reference into `reference` beside it."""
        super().save_checkpoint(local_path, hdfs_path, global_step, max_ckpt_to_keep)
        if self.reference is not None and local_path is not None:
            self.reference.save(_beside(local_path))

    def load_checkpoint(self, local_path, hdfs_path=None, del_local_after_load=False) -> None:
        """The counterpart of save_checkpoint."""
        super().load_checkpoint(local_path, hdfs_path, del_local_after_load)
        if self.reference is not None and local_path is not None:
            self.reference.load(_beside(local_path))


def _beside(actor_path: str) -> Path:
    return Path(actor_path).parent / "reference"


class RPGReferencePolicy(TrainingWorker):
    """verl's reference policy, renewed where that is due before it is asked for log-probs."""

    reference: Reference | None = None

    def infer_batch(self, data: TensorDict) -> TensorDict:
        """Reference log-probs of an iteration; verl asks for them once, after the old log-probs."""
        if self.reference is not None:
            self.reference.begin_iteration()
        return super().infer_batch(data)


class RPGActorRolloutRefWorker(ActorRolloutRefWorker):
    """verl's worker of actor, rollout and reference; its config has the section `rpg_reference` besides."""

    actor_worker_cls = RPGActor
    ref_worker_cls = RPGReferencePolicy

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[attr-defined]
    def init_model(self) -> None:
        """Build the engines as verl does, and join actor and reference."""
        if schedule_free.asked_for(self.config.actor.optim):
            schedule_free.register_engine(self.config.actor.strategy)
        super().init_model()
        settings = ReferenceSettings(**self.config.rpg_reference)
        if not settings.has_model:
            return
        assert isinstance(self.actor, RPGActor)
        assert isinstance(self.ref, RPGReferencePolicy)
        join(settings, self.actor, self.ref)
        self.actor.set_loss_fn(ReferenceLoss(self.loss_fn))


def join(settings: ReferenceSettings, actor: RPGActor, policy: RPGReferencePolicy) -> None:
    """Give actor and policy, both initialised, the one Reference that renews the second from the first."""
    engines: tuple[Any, Any] = (actor.engine, policy.engine)
    actor.reference = policy.reference = Reference(settings, engines[0].module, engines[1].module)
