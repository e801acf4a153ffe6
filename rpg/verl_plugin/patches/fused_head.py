"""verl 0.9.1's fused cross-entropy fails under FSDP2 for a model with an untied output layer (Qwen2.5-7B).

verl shards the lm_head of such a model as a separate unit, whose weights are gathered only during its own forward pass.
The fused kernel reads lm_head.weight without a forward pass and gets a shard: "got mixed torch.Tensor and DTensor".
With this file, the lm_head of a model with the kernel belongs to the outermost unit, whose weights are gathered during
the model's forward pass: 1.1 GB of bfloat16 for Qwen2.5-7B.

The kernel reads that weight alone: what else a model does to its logits, or an adapter of the lm_head, it would leave
out without a word, and train on other log-probs than the model's. Such a model is refused.

It may go when tests/verl_plugin/test_packing.py passes for qwen2 with profile=gpu_sdpa without it.
"""

from typing import Any

from verl.utils import fsdp_utils

from rpg.names import logit_changes

_verls_units = fsdp_utils._select_fsdp2_wrap_targets


def units(model: Any, classes: Any) -> list:
    """Return verl's units, without the lm_head of a model with the fused kernel: it is in the outermost one."""
    modules = _verls_units(model, classes)
    if getattr(model, "_verl_fused_kernels_backend", None) is None:  # verl sets it on models with the kernel
        return modules
    head = model.get_output_embeddings()
    return [module for module in modules if module is not head]


def refuse(model: Any) -> None:
    """Raise ValueError for a model whose logits are more than its output layer's weight times the hidden states."""
    head = model.get_output_embeddings()
    changes = logit_changes(model.config)
    changes += ["the adapter of lm_head"] if hasattr(head, "lora_A") else []
    changes += ["the bias of lm_head"] if getattr(head, "bias", None) is not None else []
    if changes:
        raise ValueError(
            f"actor_rollout_ref.model.use_fused_kernels=true: verl's kernel leaves out {', '.join(changes)}; set it to "
            "false (an adapter: or leave lm_head out of actor_rollout_ref.model.target_modules)"
        )
