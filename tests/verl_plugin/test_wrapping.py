"""What verl's wrapping for FSDP2 makes of the paper's models: the units, which a GPU gathers as a whole.

The real classes on the meta device, as rank 0 of eight.
"""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.testing._internal.distributed.fake_pg import FakeStore

from rpg.plan import MODELS, Shape

pytestmark = pytest.mark.slow  # imports of 15 s

RANKS = 8
CASES = {"Qwen/Qwen2.5-Math-7B": "qwen2", "Qwen/Qwen3-4B": "qwen3"}


@pytest.fixture(scope="module", autouse=True)
def group():
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield
    torch.distributed.destroy_process_group()


def units(family: str, shape: Shape) -> dict[str, tuple[int, int]]:
    """Return each unit's parameters, of the model and of this rank, by name; the root's name is empty."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from verl.utils.fsdp_utils import apply_fsdp2

    config = AutoConfig.for_model(
        family, vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, tie_word_embeddings=shape.tied,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    apply_fsdp2(model, {"mesh": init_device_mesh("cpu", (RANKS,))}, {})
    sizes: dict[str, tuple[int, int]] = {}
    wrapped = {name for name, module in model.named_modules() if isinstance(module, FSDPModule)}
    for name, parameter in model.named_parameters():  # shared weights once
        owner = max((unit for unit in wrapped if f"{name}.".startswith(f"{unit}." if unit else "")), key=len)
        whole, mine = sizes.get(owner, (0, 0))
        sizes[owner] = whole + parameter.numel(), mine + parameter.to_local().numel()
    assert sizes.keys() == wrapped
    return sizes


@pytest.mark.parametrize("model", CASES)
def test_units_of_the_papers_models(model):
    shape = MODELS[model]
    found = units(CASES[model], shape)
    embedding = shape.vocabulary * shape.hidden
    # untied: embedding and head are units, and outside of the units only the last norm is left to the root. Tied: the
    # root has the embedding, and FSDP2 keeps the root's weights gathered between forward and backward pass.
    ends = {"": embedding + shape.hidden}
    if not shape.tied:
        ends = {"model.embed_tokens": embedding, "lm_head": embedding, "": shape.hidden}
    # Qwen2 has biases of queries, keys and values, Qwen3 norms of a head's queries and keys; rpg.plan neglects both
    small = 2 * shape.head_dim
    if CASES[model] == "qwen2":
        small = shape.head_dim * (shape.heads + 2 * shape.kv_heads)
    layer = (shape.parameters - sum(ends.values())) // shape.layers + small
    expected = ends | {f"model.layers.{number}": layer for number in range(shape.layers)}
    assert {name: whole for name, (whole, _) in found.items()} == expected
    assert {name: mine for name, (_, mine) in found.items()} == {name: n // RANKS for name, n in expected.items()}
    largest = max(expected.values())
    assert shape.largest <= largest <= shape.largest + shape.hidden  # rpg.plan's gathered weight
