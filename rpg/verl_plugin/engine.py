"""verl's FSDP engine with our mixins, in a worker's process."""

import math
import os
from typing import Any

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_name, get_vendor
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import FSDPEngineWithLMHead

from rpg.verl_plugin.patches import unread_rows
from rpg.verl_plugin.patches.resumed_optimizer import ConfiguredOptimizerEngine
from rpg.verl_plugin.schedule_free import ScheduleFreeEngine


class ResponseHeadEngine:
    """Mixin before verl's FSDP engine: the fused head computes the responses' tokens only, unless they are packed."""

    def forward_step(self, micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        """Call verl's forward step of one micro-batch."""
        step = super().forward_step  # type: ignore[misc]
        if tu.get_non_tensor_data(micro_batch, "use_remove_padding", default=True):
            return step(micro_batch, loss_function, forward_only)
        with unread_rows.rows_of(micro_batch["prompts"], micro_batch["responses"]):
            return step(micro_batch, loss_function, forward_only)


class RPGEngine(ResponseHeadEngine, ScheduleFreeEngine, ConfiguredOptimizerEngine, FSDPEngineWithLMHead):
    """verl's engine for language models under fsdp and fsdp2; knows on every rank whether it skipped the last step."""

    last_step_skipped = False

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
    register = EngineRegistry.register(
        model_type="language_model", backend=["fsdp", "fsdp2"], device=device, vendor=vendor
    )
    register(RPGEngine)
