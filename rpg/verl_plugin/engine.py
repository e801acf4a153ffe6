"""verl's FSDP engine with our two mixins before it, in a worker's process."""

import math
import os

from rpg.verl_plugin.schedule_free import ScheduleFreeEngine


class StepAwareEngine:
    """Mixed in before verl's FSDP engine: remembers on every rank whether the last optimizer step was skipped."""

    last_step_skipped = False

    def optimizer_step(self) -> float:
        """As verl's, which skips a step whose gradient norm is not finite; returns that norm."""
        norm = super().optimizer_step()  # type: ignore[misc]
        self.last_step_skipped = not math.isfinite(norm)
        return norm


OURS = (StepAwareEngine, ScheduleFreeEngine)


def register_engine(strategy: str) -> type:
    """Register the engine of language models for this process; returns the class that verl's registry then gives.

    The registry looks for (device, vendor) before the device alone, where verl's own engine is. Call it in the
    worker before the actor is built; safe to call more than once.
    """
    from verl.utils.device import get_device_name, get_vendor
    from verl.workers.engine import EngineRegistry

    stock = EngineRegistry.get_engine_cls("language_model", strategy)
    if issubclass(stock, OURS):
        return stock
    engine = type(f"RPG{stock.__name__}", (*OURS, stock), {"__doc__": __doc__})
    device = os.getenv("VERL_ENGINE_DEVICE") or get_device_name()  # as the look-up itself does
    vendor = os.getenv("VERL_ENGINE_VENDOR") or get_vendor()
    EngineRegistry.register(model_type="language_model", backend=strategy, device=device, vendor=vendor)(engine)
    return engine
