"""LoRA in the real stack: a run learns, vLLM gets the adapter, the base model stays, and the export holds both."""

import json

import pytest
import torch
from safetensors.torch import load_file

from rpg.cli import main
from tests.e2e import short_run
from tests.e2e.conftest import TOY

pytestmark = [pytest.mark.e2e, pytest.mark.full]

ADAPTER = ["actor_rollout_ref.model.lora_rank=8"]  # lora_alpha is 16: the scale is 2
LAYER = "layers.0.self_attn.q_proj"


def test_an_adapter_learns(tmp_path):
    lr = "actor_rollout_ref.actor.optim.lr=3e-3"
    metrics = short_run.run(tmp_path / "run", 15, *ADAPTER, lr, "trainer.save_freq=15")
    rewards = [record["critic/score/mean"] for record in metrics]
    # of at least 256 responses a step, with rewards within +-1: the standard deviation of the difference is below 0.06
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    # float32 on both sides; the base model alone in vLLM would have other probabilities than the actor
    assert all(record["training/rollout_probs_diff_mean"] < 1e-5 for record in metrics)
    assert "timing_s/ref" not in metrics[0]

    saved = short_run.actor(tmp_path / "run", 15)
    model = load_file(TOY / "model" / "model.safetensors")
    weight, down, up = (
        saved[f"base_model.model.model.{LAYER}.{part}.weight"]
        for part in ("base_layer", "lora_A.default", "lora_B.default")
    )
    assert torch.equal(weight, model[f"model.{LAYER}.weight"])
    moments = [name for name, state in short_run.optimizer(tmp_path / "run", 15)["state"].items() if state]
    assert len(moments) == len([name for name in saved if "lora_" in name])

    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "hf")]) == 0
    exported = load_file(tmp_path / "hf" / "model.safetensors")[f"model.{LAYER}.weight"].float()
    # The merger writes bfloat16, which rounds by at most 2^-8 of a value: 0.02 of the weight's norm of 4.5, far below
    # the product's of 0.5. Without the product the distance would be its whole norm, without the scale half of it.
    product = 2 * up @ down
    assert (exported - weight - product).norm() < product.norm() / 4
    assert json.loads((tmp_path / "hf/lora_adapter/adapter_config.json").read_text())["lora_alpha"] == 16


def test_a_fixed_reference_is_the_base_model(tmp_path):
    """pi_ref is the actor without its adapter, also while schedule-free AdamW moves the adapter."""
    more = ["method=grpo_corrected", "optim=schedulefree", "actor_rollout_ref.actor.optim.lr=3e-2"]
    metrics = short_run.run(tmp_path / "run", 3, *ADAPTER, *more, "trainer.save_freq=3")
    assert all(record["timing_s/ref"] > 0 for record in metrics)
    distances = [record["actor/rpg_kl"] for record in metrics]
    # from the base model, which the adapter leaves behind; from the policy before each step it would stay as it is
    assert min(distances[1:]) > 2 * distances[0]
    assert not (tmp_path / "run/global_step_3/reference").exists()
