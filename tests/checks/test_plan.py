"""`rpg plan`: counted and traced figures by hand on a small model, and the command on launch scripts."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rpg.checks import estimate, step_time
from rpg.launching.compose import compose_config, resolve

ROOT = Path(__file__).parents[2]
SMALL = {"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 1000,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 10240}  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """The configuration of a model, and nothing else of it."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(SMALL))
    return folder


def planned(small: Path, *arguments: str) -> subprocess.CompletedProcess:
    script = ROOT / "recipe/rpg/7b/run_rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
    return subprocess.run(
        [sys.executable, "-m", "rpg.cli", "plan", str(script), *arguments],
        env={**os.environ, "MODEL_PATH": str(small)}, capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


def of(*overrides: str) -> dict:
    return resolve(compose_config(["rpg.script=x", *overrides])).config


TRACED = """
import json, sys
from rpg.checks.trace import trace
made = trace(json.load(sys.stdin), 8, reference=False)
print(json.dumps([made.resident, made.log_prob.total, made.log_prob.parts, made.update.total, made.update.parts,
                  made.largest, made.batches]))
"""


def traced(config: dict) -> list:
    done = subprocess.run([sys.executable, "-c", TRACED], input=json.dumps(config), capture_output=True, text=True,
                          check=True, cwd=ROOT)  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.slow
def test_traced_by_hand(small):
    """A small model on 8 ranks: what has a closed form is met exactly, and a limit that hangs on it moves with it."""
    config = of(f"actor_rollout_ref.model.path={small}")
    resident, log_prob, parts, update, update_parts, largest, batches = traced(config)
    # embedding and output 2 x 1000 x 64; a layer: q, o 2 x 64 x 64, k, v 2 x 64 x 32, biases 64 + 2 x 32, MLP 3 x 64 x
    # 128, norms 2 x 64; last norm 64. All sizes divide by 8 ranks
    parameters = 2 * 64000 + 2 * (8192 + 4096 + 128 + 24576 + 128) + 64
    assert parts["SHARDED_PARAM"] == 4 * parameters / 8
    assert update_parts["SHARDED_GRAD"] == 4 * parameters / 8
    steps = 4 * (3 + 11 * 2 + 0)  # a counter of the optimizer's steps a tensor, whole on every rank: not more than that
    assert 12 * parameters / 8 <= resident <= 12 * parameters / 8 + 12 * 4 * steps
    assert largest == 4 * 64000
    assert batches == {"log_prob": [1, 32768], "update": [1, 16384]}
    assert log_prob > 2 * 32768 * 1000  # logits in bf16
    # one hidden state a layer and the logits in bf16, and the weights' state
    assert update > 2 * 16384 * (2 * 64 + 1000) + 16 * parameters / 8
    path = f"actor_rollout_ref.model.path={small}"
    halved = traced(of(path, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192"))
    assert halved[1] == log_prob
    assert 0.45 < halved[3] / update < 0.55
    kept = traced(of(path, "actor_rollout_ref.model.enable_gradient_checkpointing=false"))
    # without checkpointing a layer keeps more than 10 tensors of a token's width in bf16
    assert kept[3] > update + 2 * 2 * 10 * 16384 * 64


@pytest.mark.full  # 20 s
def test_a_fused_head_makes_no_logits(small):
    base = f"actor_rollout_ref.model.path={small}"
    plain, fused = traced(of(base)), traced(of(base, "actor_rollout_ref.model.use_fused_kernels=true"))
    # of a model this narrow a layer holds more in the update than its logits are
    assert fused[1] < 0.7 * plain[1]


def test_time_by_hand():
    """Qwen3-4B at 2k on 8 H100s, the fast end: one step's arithmetic, written out; a reference is one more pass."""
    config = of("model=qwen3-4b", "context=2k")
    shape = estimate.shape_of("Qwen/Qwen3-4B")
    assert shape is not None
    took = step_time.phases(shape, config, estimate.GPUS["h100"], 8, step_time.FAST)
    answers, response = 512 * 16 / 8, 0.35 * 2048
    length = 256 + response
    # two FLOPs a weight (tied: the one matrix is the output layer too); attention 2 x layers x heads x size x length
    token = 2 * shape.parameters + 2 * 36 * 32 * 128 * length
    # forward, again for checkpointing, and twice for backward; 0.43 and 0.5 of 989 TFLOP/s
    assert took["update"] == pytest.approx(4 * token * answers * length / (0.43 * 989e12))
    assert took["log-probs"] == pytest.approx(token * answers * length / (0.5 * 989e12))
    # 248 at once (max_num_seqs); all weights a decoding step in bf16, and the cache; prefill of 64 prompts, cached
    steps = answers * response / 248 + 2048
    cache = answers * response * (256 + response / 2) * 2 * 2 * 36 * 8 * 128
    prefill = 64 * 256 * (2 * shape.parameters + 2 * 36 * 32 * 128 * 256) / (0.5 * 989e12)
    assert took["generation"] == pytest.approx((steps * 2 * shape.parameters + cache) / (0.7 * 3.35e12) + prefill)
    fixed = of("model=qwen3-4b", "context=2k", "reference=fixed")
    with_reference = step_time.phases(shape, fixed, estimate.GPUS["h100"], 8, step_time.FAST)
    assert with_reference["log-probs"] == 2 * took["log-probs"]


@pytest.mark.slow
def test_the_command(small):
    done = planned(small)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("on 8 x H100 80 GB", "old log-probs", "update", "weight synchronisation", "traced, 16384 tokens",
                  "sequences of full length", "400 steps", "2 checkpoints at once",
                  "read whole by the first rank alone"):  # fmt: skip
        assert words in done.stdout
    assert "reference" not in done.stdout
    two = planned(small, "reference=fixed", "--gpu", "a100", "--nodes", "2")
    assert "on 16 x A100 80 GB" in two.stdout
    assert "of the reference's shards, which stay" in two.stdout


@pytest.mark.slow
def test_what_does_not_fit_or_is_not_known(small):
    too_much = planned(small, "actor_rollout_ref.rollout.gpu_memory_utilization=1.0")
    assert too_much.returncode == 1
    assert "DOES NOT FIT" in too_much.stdout
    no_cache = planned(small, "actor_rollout_ref.rollout.gpu_memory_utilization=0.04")
    assert no_cache.returncode == 1
    assert ": 0 sequences of full length at once,  DOES NOT FIT" in no_cache.stdout
    assert "  0 tokens of" in no_cache.stdout
    unknown = planned(Path("someone/else"))
    assert unknown.returncode == 2
    assert "actor_rollout_ref.model.path=someone/else: no config.json there; set MODEL_PATH" in unknown.stderr
    nothing = planned(small, "actor_rollout_ref.rollout.tensor_model_parallel_size=0", "actor_rollout_ref.rollout.n=0",
                      "trainer.save_freq=null", "--nodes", "0")  # fmt: skip
    assert (nothing.returncode, nothing.stdout) == (2, "")
    for key in ("rollout.tensor_model_parallel_size=0", "rollout.n=0", "trainer.save_freq=null", "trainer.nnodes=0"):
        assert f"{key}: must be" in nothing.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "script", ["7b/run_rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28.sh", "4b/run_rpg_4b_ufkl1e-4_noiterref_8k.sh"]
)
def test_the_papers_runs_fit_and_are_planned_in_a_minute(script):
    """A minute of processor time: a machine may be busy with other things."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "rpg.cli", "plan", str(ROOT / "recipe/rpg" / script)], capture_output=True, text=True,
        check=False, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(done.stdout, f"{took:.0f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert took < 60
