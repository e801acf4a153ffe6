"""A model whose logits are more than its output layer's weight times the hidden states is refused."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto import modeling_auto

from rpg.names import LOGIT_CHANGES, MASKS_LOGITS
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


# logits, or a part of them, are assigned more than a call of a layer, a slice or another type; in a line of ast.unparse
COMPUTES_WITH_LOGITS = re.compile(r"^\s*(lm_)?logits(\[.*?\] = | [-+*/]= | = .* [-+*/] )", re.MULTILINE)


@pytest.mark.full  # parses all of transformers' models: 20 seconds
def test_the_list_has_what_transformers_models_do_to_their_logits():
    """A model type whose forward computes with logits behind the output layer is refused by a name of our list."""
    changing = {kind: source for kind, source in forwards() if COMPUTES_WITH_LOGITS.search(source)}
    assert {"granite", "cohere", "falcon_h1", "recurrent_gemma", "xlstm", "gemma3n"} <= changing.keys()
    unknown = {kind for kind, source in changing.items() if not any(name in source for name in LOGIT_CHANGES)}
    assert unknown == {*MASKS_LOGITS}


def forwards() -> Iterator[tuple[str, str]]:
    """Yield the type and the source of `forward` of every model that verl may load."""
    kinds = {
        name: kind
        for mapping in (
            modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
            modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        )
        for kind, names in mapping.items()
        for name in ([names] if isinstance(names, str) else names)
    }
    for file in (Path(transformers.__file__).parent / "models").glob("*/modeling_*.py"):
        for model in ast.parse(file.read_text()).body:
            if isinstance(model, ast.ClassDef) and model.name in kinds:
                for method in model.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "forward":
                        yield kinds[model.name], ast.unparse(method)
