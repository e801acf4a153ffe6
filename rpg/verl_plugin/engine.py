"""verl's FSDP engine with our two mixins, in a worker's process."""

import math
import os

from rpg.verl_plugin.schedule_free import ScheduleFreeEngine


class StepAwareEngine:
    """Mixin before verl's FSDP engine: records on every rank whether the last optimizer step was skipped."""

    last_step_skipped = False

    def optimizer_step(self) -> float:
        """Call verl's optimizer step, which skips a step with a non-finite gradient norm; return that norm."""
        norm = super().optimizer_step()  # type: ignore[misc]
        self.last_step_skipped = not math.isfinite(norm)
        return norm


OURS = (StepAwareEngine, ScheduleFreeEngine)


def register_engine(strategy: str) -> type:
    """Register the engine for language models in this process; return the class that verl's registry then gives.

    The registry looks up (device, vendor) before the device, under which verl's own engine is registered. Call it in
    the worker before the actor is built. Safe to call more than once.
    """
    from verl.utils.device import get_device_name, get_vendor
    from verl.workers.engine import EngineRegistry

    stock = EngineRegistry.get_engine_cls("language_model", strategy)
    if issubclass(stock, OURS):
        return stock
    engine = type(f"RPG{stock.__name__}", (*OURS, stock), {"__doc__": __doc__})
    device = os.getenv("VERL_ENGINE_DEVICE") or get_device_name()  # as in the look-up
    vendor = os.getenv("VERL_ENGINE_VENDOR") or get_vendor()
    EngineRegistry.register(model_type="language_model", backend=strategy, device=device, vendor=vendor)(engine)
    return engine
