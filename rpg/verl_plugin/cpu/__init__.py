"""Support for running verl 0.9.1's trainer, FSDP2 and vLLM on a CPU (docs/train_your_own.md).

Nothing here is imported unless VERL_PLATFORM=cpu is set (rpg.verl_plugin.on_cpu).
"""

import multiprocessing
import os

PRELOADED_PYTHON = "RPG_PRELOADED_PYTHON"  # executable of the import server, for vLLM's engine process


def vllm_plugin() -> None:
    """Keep vLLM's linear weights loadable, and start vLLM's engine process through the import server if there is one.

    vLLM's CPU build packs the weights of a linear layer after loading and drops the parameters, which the next weight
    update needs.
    """
    import torch
    from vllm.model_executor.layers import utils

    def unpacked(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear  # type: ignore[assignment]

    utils.dispatch_cpu_unquantized_gemm = unpacked
    if python := os.environ.get(PRELOADED_PYTHON):
        multiprocessing.set_executable(python)
