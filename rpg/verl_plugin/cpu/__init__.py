"""Support for running verl 0.9.1's trainer, FSDP2 and vLLM on a CPU (docs/train_your_own.md).

Of this package only this file is imported unless VERL_PLATFORM=cpu is set.
"""

import multiprocessing
import os

PRELOADED_PYTHON = "RPG_PRELOADED_PYTHON"  # executable of the import server, for vLLM's engine process


def on_cpu() -> bool:
    """Return whether VERL_PLATFORM=cpu selects the platform of verl_platform.py."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def vllm_plugin() -> None:
    """Entry point `vllm.general_plugins`, which vLLM calls in each of its processes: on a CPU, keep linear weights
    loadable, and start vLLM's engine process through the import server if there is one.

    vLLM's CPU build packs the weights of a linear layer after loading and drops the parameters, which the next weight
    update needs.
    """
    if not on_cpu():
        return
    import torch
    from vllm.model_executor.layers import utils

    def unpacked(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear  # type: ignore[assignment]

    utils.dispatch_cpu_unquantized_gemm = unpacked
    if python := os.environ.get(PRELOADED_PYTHON):
        multiprocessing.set_executable(python)
