"""A model whose logits are more than its output layer's weight times the hidden states is refused."""

import pytest
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from rpg.verl_plugin.patches.fused_head import refuse

TINY = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip


def tiny(kind: str, **more: float) -> nn.Module:
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **TINY, **more))


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma3_text", "granite"])
def test_others_pass(kind):
    refuse(tiny(kind))


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("granite", {"logits_scaling": 8.0}, "logits_scaling"),
        ("cohere", {}, "logit_scale"),
        ("gemma2", {}, "final_logit_softcapping"),
        ("phi", {}, "the bias of lm_head"),
    ],
)
def test_what_the_kernel_would_leave_out(kind, more, said):
    with pytest.raises(ValueError, match=f"leaves out {said};"):
        refuse(tiny(kind, **more))
