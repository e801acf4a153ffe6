"""What verl 0.9.1 and vLLM lack on a CPU, so that the real trainer, FSDP2 and vLLM run on a laptop.

`rpg.verl_plugin.cpu_profile()` is the door: it imports this package only where VERL_PLATFORM=cpu is set. docs/cpu.md.
"""

import multiprocessing
import os

PRELOADED_PYTHON = "RPG_PRELOADED_PYTHON"  # path of the import server's executable, for vLLM's engine process


def register() -> None:
    """Register the platform `cpu` with verl and remove what stands in its way; safe to call more than once."""
    from rpg.verl_plugin.cpu import verl_platform

    verl_platform.register()


def register_checkpoint_engine() -> None:
    """Register the engine that carries weights to rollouts with logical GPUs of their own (schedule=separate)."""
    from rpg.verl_plugin.cpu import checkpoint_engine

    checkpoint_engine.register()


def vllm_plugin() -> None:
    """Keep vLLM's linear weights loadable, and start vLLM's engine process through the import server if there is one.

    vLLM's CPU build packs the weights of a linear layer after loading and drops the parameters, so that the next weight
    update finds none.
    """
    import torch
    from vllm.model_executor.layers import utils

    def unpacked(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear  # type: ignore[assignment]

    utils.dispatch_cpu_unquantized_gemm = unpacked
    if python := os.environ.get(PRELOADED_PYTHON):
        multiprocessing.set_executable(python)
