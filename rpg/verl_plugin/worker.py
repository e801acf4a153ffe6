"""verl's worker with our engine and actor loss, a moving reference, and counts of skipped steps."""

import math
import os
from pathlib import Path
from typing import Any

import torch
import verl.utils.tensordict_utils as tu
from tensordict import TensorDict
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils import fsdp_utils
from verl.utils.device import get_device_name, get_vendor
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import FSDPEngineWithLMHead
from verl.workers.engine_workers import TrainingWorker

from rpg.verl_plugin import external
from rpg.verl_plugin.actor_loss import INPUTS, ActorLoss
from rpg.verl_plugin.patches import fused_head
from rpg.verl_plugin.patches.anchor import AnchorWorker
from rpg.verl_plugin.patches.resumed_optimizer import ConfiguredOptimizerEngine
from rpg.verl_plugin.patches.unread_rows import ResponseHeadEngine
from rpg.verl_plugin.reference import Reference
from rpg.verl_plugin.schedule_free import ScheduleFreeEngine


class RPGEngine(ResponseHeadEngine, ScheduleFreeEngine, ConfiguredOptimizerEngine, FSDPEngineWithLMHead):
    """verl's engine for language models under fsdp2; knows on every rank whether it skipped the last step."""

    last_step_skipped = False

    def _build_fsdp_module(self, module: torch.nn.Module) -> Any:
        """As in verl, without dropout of model and adapter: an update's log-probs and ratios would be noisy."""
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            elif hasattr(part, "attention_dropout"):  # transformers passes it to the kernel
                part.attention_dropout = 0.0  # type: ignore[assignment]
        return super()._build_fsdp_module(module)  # type: ignore[misc]

    def optimizer_step(self) -> float:
        """Call verl's optimizer step, which skips a step with a non-finite gradient norm; return that norm."""
        norm = super().optimizer_step()
        self.last_step_skipped = not math.isfinite(norm)
        return norm


def register_engine() -> None:
    """Make verl build RPGEngine in this process. Call it before the actor is built; safe to call more than once.

    The registry looks up (device, vendor) before the device, under which verl's own engine is registered.
    """
    if EngineRegistry.get_engine_cls("language_model", "fsdp2") is RPGEngine:
        return
    device = os.getenv("VERL_ENGINE_DEVICE") or get_device_name()  # as in the look-up
    vendor = os.getenv("VERL_ENGINE_VENDOR") or get_vendor()
    EngineRegistry.register(model_type="language_model", backend="fsdp2", device=device, vendor=vendor)(RPGEngine)


class RPGActor(TrainingWorker):
    """verl's actor; counts its optimizer steps for the reference, which is saved and loaded with it.

    nonfinite_limit: number of consecutive skipped optimizer steps that ends the run (rpg.nonfinite_limit).
    """

    engine: Any
    loss_fn: ActorLoss
    reference: Reference | None = None
    nonfinite_limit: int
    _mini_batches = _skipped = _in_a_row = 0

    def train_batch(self, data: TensorDict) -> TensorDict:
        """Run one optimizer step on a mini-batch; verl's engine skips it if the gradient is not finite.

        Raises:
            FloatingPointError: it is one of nonfinite_limit such steps in a row; every rank raises it at the same step.
        """
        output = super().train_batch(data)
        self._mini_batches += 1
        if not self.engine.last_step_skipped:
            self._in_a_row = 0
            return output
        self._skipped += 1
        self._in_a_row += 1
        # all 0: the cause is in the policy's log-probs, their gradient, or another rank's rows
        counts = {name: int((~data[name].values().isfinite()).sum()) for name in INPUTS if name in data}  # type: ignore[union-attr]
        step = int(data["global_steps"][0]) if "global_steps" in data else 0
        rank = torch.distributed.get_rank()
        print(f"warning: step {step}: skipped an optimizer step, as its gradient is not finite; numbers of NaN or Inf "
              f"in rank {rank}'s rows: {counts}")  # fmt: skip
        if self._in_a_row >= self.nonfinite_limit:
            raise FloatingPointError(
                f"{self._in_a_row} optimizer steps in a row had a gradient that is not finite (rpg.nonfinite_limit="
                f"{self.nonfinite_limit}). The weights are those before them; the same command continues from the "
                "last checkpoint"
            )
        return output

    def train_mini_batch(self, data: TensorDict) -> TensorDict | None:
        """Run all optimizer steps of an iteration; adds metrics of skipped steps, off-policyness and reference."""
        self._mini_batches = self._skipped = 0
        output = super().train_mini_batch(data)
        ours, reference_kl = self.loss_fn.take(self.engine.get_data_parallel_group())
        if self.reference is not None:
            self.reference.end_iteration(self._mini_batches - self._skipped, reference_kl)
            ours |= self.reference.metrics()
        if output is None:  # None on all but one rank of a sequence-parallel group
            return None
        metrics = tu.get(output, "metrics") | {"skipped_steps": float(self._skipped)} | ours
        return tu.get_tensordict(tensor_dict={}, non_tensor_dict={"metrics": metrics})

    def save_checkpoint(self, local_path, hdfs_path=None, global_step=0, max_ckpt_to_keep=None) -> None:
        """Save the actor into local_path as verl does, and the reference beside it.

        max_ckpt_to_keep is not passed on: checkpoints.py removes old ones, once this one is complete.
        """
        super().save_checkpoint(local_path, hdfs_path, global_step, None)
        if self.reference is not None and local_path is not None:
            self.reference.save(Path(local_path))

    def load_checkpoint(self, local_path, hdfs_path=None, del_local_after_load=False) -> None:
        """Load what save_checkpoint wrote."""
        super().load_checkpoint(local_path, hdfs_path, del_local_after_load)
        if self.reference is not None and local_path is not None:
            self.reference.load(Path(local_path))


class RPGReferencePolicy(TrainingWorker):
    """verl's reference policy, which is renewed, if due, before it computes log-probs."""

    engine: Any
    reference: Reference | None = None

    def infer_batch(self, data: TensorDict) -> TensorDict:
        """Return the reference log-probs of an iteration; verl requests them once, after the old log-probs."""
        if self.reference is not None:
            self.reference.begin_iteration()
        return super().infer_batch(data)


class RPGActorRolloutRefWorker(AnchorWorker):
    """verl's worker of actor, rollout and reference; its config also has the section `rpg` (trainer.py)."""

    actor_worker_cls = RPGActor
    ref_worker_cls = RPGReferencePolicy

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[attr-defined]
    def init_model(self) -> None:
        """Build the engines as verl does, and join actor and reference."""
        register_engine()
        for name in self.config.rpg.external_lib:
            external.load(name)
        fsdp_utils._select_fsdp2_wrap_targets = fused_head.units
        super().init_model()
        if self.actor is None:
            return
        assert isinstance(self.actor, RPGActor)
        if self.config.model.get("use_fused_kernels"):
            fused_head.refuse(self.actor.engine.module)
        settings = self.config.rpg.reference
        has_reference = settings.mode != "old"
        if has_reference and not self.config.model.get("lora_rank"):  # pi_ref of LoRA: the actor's base model
            assert isinstance(self.ref, RPGReferencePolicy)
            reference = Reference(self.actor.engine.module, self.ref.engine.module, settings)
            self.actor.reference = self.ref.reference = reference
        self.actor.nonfinite_limit = self.config.rpg.nonfinite_limit
        self.actor.set_loss_fn(ActorLoss(self.loss_fn, has_reference))  # type: ignore[arg-type]
