"""verl's FSDP engine with what is ours, in a worker's process."""

import os

from rpg.verl_plugin.nonfinite import StepAwareEngine
from rpg.verl_plugin.schedule_free import ScheduleFreeEngine

OURS = (StepAwareEngine, ScheduleFreeEngine)


def register_engine(strategy: str) -> type:
    """Make verl's engine registry of this process answer with a language model's engine that has OURS before it.

    The registry looks for (device, vendor) before the device alone, where the stock engine is. Call it in the
    worker, before the actor is built; idempotent. Returns the class that the registry answers with.
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
