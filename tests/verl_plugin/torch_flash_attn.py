"""A `flash_attn` of torch operations, exact in float32: transformers' flash path and verl's Ulysses run on a CPU."""

import importlib.machinery
import sys
import types

import torch
from torch.nn.functional import scaled_dot_product_attention


def install() -> list[list[int]]:
    """Put the module in the place of flash-attn in this process.

    Returns:
        the sequences' borders in each packed call (cu_seqlens), filled as the calls come.
    """
    from transformers import PreTrainedModel
    from transformers import modeling_flash_attention_utils as utils

    packed: list[list[int]] = []

    def flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
        causal=False, window_size=(-1, -1), softcap=0.0, deterministic=False, alibi_slopes=None,
        return_attn_probs=False, block_table=None,
    ):  # fmt: skip
        """Attend within each sequence of a pack. q: (tokens, heads, width); k, v: (tokens, grouped heads, width)."""
        assert (causal, dropout_p, softcap, window_size) == (True, 0.0, 0.0, (-1, -1))
        assert cu_seqlens_q.tolist() == cu_seqlens_k.tolist()
        packed.append(cu_seqlens_q.tolist())
        groups = q.shape[1] // k.shape[1]
        heads_first = [
            part.repeat_interleave(n, dim=1).transpose(0, 1) for part, n in ((q, 1), (k, groups), (v, groups))
        ]
        lengths = cu_seqlens_q.diff().tolist()
        parts = zip(*(part.split(lengths, dim=1) for part in heads_first), strict=True)
        attended = [scaled_dot_product_attention(*part, is_causal=True, scale=softmax_scale) for part in parts]
        return torch.cat(attended, dim=1).transpose(0, 1)

    def not_packed(*args, **kwargs):
        raise AssertionError("attention over padded rows: the sequences are not packed")

    module, padding = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.bert_padding")
    module.__spec__ = importlib.machinery.ModuleSpec("flash_attn", None)
    vars(module).update(
        __version__="2.8.3",
        flash_attn_varlen_func=flash_attn_varlen_func,
        flash_attn_func=not_packed,
        flash_attn_with_kvcache=not_packed,
    )
    vars(padding).update(
        pad_input=utils._pad_input, unpad_input=utils._unpad_input, index_first_axis=utils._index_first_axis
    )
    sys.modules.update({"flash_attn": module, "flash_attn.bert_padding": padding})
    utils.is_flash_attn_2_available = lambda: True
    PreTrainedModel._flash_attn_can_dispatch = lambda self, *args, **kwargs: True  # asks for a GPU
    return packed
