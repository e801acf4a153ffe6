"""verl 0.9.1's fused cross-entropy: a fault under FSDP2, and rows that nobody reads.

It fails for a model with an untied output layer (Qwen2.5-7B). verl shards the lm_head of such a model as a separate
unit, whose weights are gathered only during its own forward pass. The fused kernel reads lm_head.weight without a
forward pass and gets a shard: "got mixed torch.Tensor and DTensor". With this file, the lm_head of a model with the
kernel belongs to the outermost unit, whose weights are gathered during the model's forward pass: 1.1 GB of bfloat16 for
Qwen2.5-7B.

Of unpacked sequences it computes log-probs and entropy for prompts and padding too: for SmolLM2-135M with prompts of 14
tokens and responses of 4, a fifth of a step. With `rows_of`, it computes those of the responses; the others are 0.

The unit may go when tests/verl_plugin/test_packing.py passes for qwen2 with profile=gpu_sdpa without it, the rows when
verl computes no others.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

_ROWS: ContextVar[torch.Tensor | None] = ContextVar("rows", default=None)  # of the micro-batch in progress


def install() -> None:
    """Make verl shard the lm_head of models with the fused kernel in the outermost unit, and compute chosen rows only.

    Safe to call repeatedly.
    """
    from verl.utils import fsdp_utils
    from verl.utils.experimental.torch_functional import FusedLinearForPPO

    original = fsdp_utils._select_fsdp2_wrap_targets
    if not isinstance(original, functools.partial):  # a partial is our replacement
        fsdp_utils._select_fsdp2_wrap_targets = functools.partial(_units, original)
        forward: Any = functools.partialmethod(_forward, FusedLinearForPPO.forward)
        FusedLinearForPPO.forward = forward


@contextlib.contextmanager
def rows_of(prompts: torch.Tensor, responses: torch.Tensor) -> Iterator[None]:
    """Compute only the rows that predict a response's token, in batches of unpacked sequences.

    prompts, responses: nested tensors (batch, tokens), of which the lengths are read.
    """
    prompt, length = (nested.offsets().diff() for nested in (prompts, responses))  # type: ignore[attr-defined]
    first = prompt - 1  # the last token of the prompt predicts the first of the response
    at = torch.arange(int((first + 1 + length).max()), device=first.device)
    token = _ROWS.set((at >= first[:, None]) & (at < (first + length)[:, None]))
    try:
        yield
    finally:
        _ROWS.reset(token)


def _forward(
    self: Any,
    original: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    hidden_states: torch.Tensor,
    vocab_weights: torch.Tensor,
    input_ids: torch.Tensor,
    temperature: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = _ROWS.get()
    if rows is None:
        return original(self, hidden_states, vocab_weights, input_ids, temperature)
    computed = original(self, hidden_states[rows], vocab_weights, input_ids[rows], temperature)
    log_probs, entropy = (values.new_zeros(rows.shape).index_put((rows,), values) for values in computed)
    return log_probs, entropy


def _units(original: Callable[..., list], model: Any, classes: Any) -> list:
    modules = original(model, classes)
    if getattr(model, "_verl_fused_kernels_backend", None) is None:  # verl sets it on models with the kernel
        return modules
    head = model.get_output_embeddings()
    return [module for module in modules if module is not head]
