"""A pre-trained language model on the real stack: SmolLM2-135M-Instruct.

Unlike the toy model it has Llama's architecture, a vocabulary of 49,152 and a chat template with a system prompt.
scripts/smollm2.sh makes the model's directory from a download of 93 MB.
"""

import json
import subprocess

import pytest
from safetensors.torch import load_file
from transformers import AutoTokenizer

from rpg.rewards import compute_score
from tests.e2e import short_run
from tests.e2e.conftest import PATIENCE, ROOT
from tests.e2e.test_evaluation import rpg
from tests.e2e.test_stack import RPG_METRICS, SAME_POLICY, assert_weights_reached_vllm, training_steps

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_smollm2.sh"
HOME = ROOT / "runs/smollm2"
MODEL = HOME / "SmolLM2-135M-Instruct"


@pytest.fixture(scope="module", autouse=True)
def model():
    subprocess.run(["bash", "scripts/smollm2.sh"], cwd=ROOT, check=True, timeout=2 * PATIENCE)


def test_tokenizer_and_template_are_the_models():
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    assert (len(tokenizer), tokenizer.eos_token, tokenizer.eos_token_id) == (49152, "<|im_end|>", 2)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False, add_generation_prompt=True)
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert text.endswith("<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n")


def test_three_steps_and_an_export(tmp_path):
    directory = tmp_path / "run"
    # verl's warm-up begins with a step of size 0
    settings = ["trainer.test_freq=3", "trainer.save_freq=3", "actor_rollout_ref.actor.optim.lr_warmup_steps=0"]
    short_run.run(directory, 3, *settings, script=SCRIPT)
    steps = training_steps(directory / "metrics.jsonl")
    assert len(steps) == 3
    assert_weights_reached_vllm(steps)
    for step in steps:
        assert set(RPG_METRICS) <= set(step)
        assert 8 < step["response_length/mean"] <= 96
        assert step["actor/rpg_kl"] > SAME_POLICY**2  # of two mini-batches the second meets a moved policy
    samples = [json.loads(line) for line in (directory / "validation/3.jsonl").read_text().splitlines()]
    assert len(samples) == 48
    assert not [sample for sample in samples if "<|im_" in sample["output"]]  # a turn's end is no part of an answer
    assert all(sample["acc"] == compute_score("toy_sum", sample["output"], sample["gts"])["acc"] for sample in samples)
    before, after = load_file(MODEL / "model.safetensors"), short_run.actor(directory, 3)
    name = "model.layers.0.mlp.up_proj.weight"
    assert 1e-6 < (after[name] - before[name]).abs().max() < 1e-3  # three steps of AdamW at 1e-5
    rpg("export", str(directory / "global_step_3"))
