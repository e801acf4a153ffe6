"""verl's fused cross-entropy on a model whose output layer has weights of its own, under FSDP2.

verl 0.9.1 shards the lm_head of such a model (Qwen2.5-7B, not Qwen3-4B) as a unit of its own, whose weights are whole
only while its forward pass runs. The fused kernel reads lm_head.weight and calls no forward pass, so that it meets a
shard: "got mixed torch.Tensor and DTensor". Here a model with the kernel leaves its lm_head to the outermost unit,
whose weights are whole for as long as the model's own forward pass runs: 1.1 GB of bfloat16 for Qwen2.5-7B.
"""

import functools
from collections.abc import Callable
from typing import Any


def asked_for(model_config: Any) -> bool:
    """Whether the section `actor_rollout_ref.model` of a configuration asks for the fused kernel."""
    return bool(model_config.get("use_fused_kernels"))


def install() -> None:
    """Let verl leave the lm_head of models with the fused kernel to the outermost unit; safe to call more than once."""
    from verl.utils import fsdp_utils

    original = fsdp_utils._select_fsdp2_wrap_targets
    if not isinstance(original, functools.partial):  # a partial is ours: installed before
        fsdp_utils._select_fsdp2_wrap_targets = functools.partial(_units, original)


def _units(original: Callable[..., list], model: Any, classes: Any) -> list:
    modules = original(model, classes)
    if getattr(model, "_verl_fused_kernels_backend", None) is None:  # verl sets it where the kernel is in
        return modules
    head = model.get_output_embeddings()
    return [module for module in modules if module is not head]
