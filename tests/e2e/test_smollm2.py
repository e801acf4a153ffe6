"""A pre-trained language model on the real stack: SmolLM2-135M-Instruct.

Unlike the toy model it has Llama's architecture, a vocabulary of 49,152 and a chat template with a system prompt.
`rpg demo --model smollm2` makes the model's directory from a download of 93 MB.
"""

import json
import subprocess
import sys

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rpg.rewards import compute_score
from tests.e2e import short_run
from tests.e2e.conftest import PATIENCE, ROOT
from tests.e2e.test_evaluation import rpg
from tests.e2e.test_stack import RPG_METRICS, training_steps

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_noiterref_smollm2.sh"
MODEL = ROOT / "runs/smollm2/SmolLM2-135M-Instruct"
END = {"answer_end": "\n"}  # of the rows
# Mean distance of vLLM's probabilities from the actor's. Both compute in bfloat16, which moves a log-prob by less than
# 0.05 (docs/gpu.md), and a probability by no more. With random weights vLLM would give each of 49,152 tokens next to no
# probability, and the mean distance would be the actor's probability of what it samples, of the order of a half.
BF16_APART = 0.05


@pytest.fixture(scope="module", autouse=True)
def model():
    command = [sys.executable, "-m", "rpg.cli", "demo", "--model", "smollm2", "--prepare-only"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=2 * PATIENCE)


def test_steps_a_resume_an_evaluation_and_an_export(tmp_path):
    directory = tmp_path / "run"
    optim = "actor_rollout_ref.actor.optim"
    # verl's warm-up begins with a step of size 0; a decay has a length, which must not change in a resume
    settings = [f"{optim}.lr_warmup_steps=0", f"{optim}.lr_scheduler_type=constant"]
    settings += ["trainer.test_freq=1", "trainer.save_freq=1"]
    for end in (1, 2):  # the second goes on from the first's checkpoint
        short_run.run(directory, end, *settings, script=SCRIPT)
    steps = training_steps(directory / "metrics.jsonl")
    assert len(steps) == 2
    for step in steps:
        assert set(RPG_METRICS) <= set(step)
        assert step["training/rollout_probs_diff_mean"] < BF16_APART
    assert steps[0]["actor/rpg_kl"] < steps[-1]["actor/rpg_kl"]  # to the initial model, from which the policy moves
    samples = [json.loads(line) for line in (directory / "validation/2.jsonl").read_text().splitlines()]
    assert all(sample["acc"] == compute_score("small_sums", sample["output"], sample["gts"], END)["acc"]
               for sample in samples)  # fmt: skip
    before, after = load_file(MODEL / "model.safetensors"), short_run.actor(directory, 2)
    name = "model.layers.0.mlp.up_proj.weight"
    assert 1e-6 < (after[name] - before[name]).abs().max() < 1e-3  # AdamW's steps of 1e-5

    assert "small_sums" in rpg("eval", str(directory))
    rpg("export", str(directory / "global_step_2"))
    exported = directory / "hf-global_step_2"
    tokenizer, trained = AutoTokenizer.from_pretrained(exported), AutoModelForCausalLM.from_pretrained(exported)
    prompt = tokenizer("9 - 5 = 4\n3 + 1 =", return_tensors="pt")
    answer = trained.generate(**prompt, max_new_tokens=4, do_sample=False)[0, prompt.input_ids.shape[1] :]
    assert compute_score("small_sums", tokenizer.decode(answer), "4", END)["pred"]
