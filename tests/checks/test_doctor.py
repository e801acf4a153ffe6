"""Every check of `rpg doctor` with a configuration that passes it and one that does not; estimates by hand."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rpg.checks import budgets, estimate, inputs, machine, preflight
from rpg.checks.finding import Refused, Run
from rpg.checks.rules import RPG_ESTIMATORS
from rpg.data.parquet import Problem, repeated_rows, write_parquet
from rpg.launching import doctor_command as doctor
from rpg.launching.compose import compose_config, resolve
from tests.checks.conftest import make_toy, run_of

ROOT = Path(__file__).parents[2]


def config(**changes):
    """The keys of verl's configuration that the doctor reads; changes by dotted key, dots as __."""
    made = {
        "actor_rollout_ref": {
            "model": {"path": "Qwen/Qwen3-4B", "enable_gradient_checkpointing": True},
            "actor": {
                "use_dynamic_bsz": True,
                "ppo_max_token_len_per_gpu": 16384,
                "policy_loss": {"loss_mode": "rpg_urkl", "kl_coef": 1e-4},
                "fsdp_config": {"param_offload": False, "optimizer_offload": False},
                "use_kl_loss": False,
                "kl_loss_coef": 0.001,
            },
            "rollout": {
                "gpu_memory_utilization": 0.5,
                "tensor_model_parallel_size": 1,
                "max_model_len": None,
                "dtype": "bfloat16",
            },
        },
        "algorithm": {"use_kl_in_reward": False, "kl_ctrl": {"kl_coef": 0.001}},
        "data": {"max_prompt_length": 1024, "max_response_length": 1024},
        "trainer": {
            "n_gpus_per_node": 1,
            "nnodes": 1,
            "total_training_steps": 400,
            "save_freq": 20,
            "max_actor_ckpt_to_keep": None,
            "default_local_dir": "/tmp/none/x",
            "resume_mode": "auto",
            "logger": ["console", "wandb"],
        },
    }
    for key, value in changes.items():
        *folders, last = key.split("__")
        place = made
        for folder in folders:
            place = place[folder]
        place[last] = value
    return made


TINY = estimate.Shape(hidden=8, layers=2, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocabulary=10, tied=False)


def test_parameters_by_hand():
    # embeddings 2*10*8 = 160; a layer: q and o 2*8*4*2, k and v 2*8*4*1 (192), MLP 3*8*16 (384), norms 16; last norm 8
    assert TINY.parameters == 160 + 2 * (192 + 384 + 16) + 8


@pytest.mark.parametrize(("name", "billions"), [("Qwen/Qwen2.5-Math-7B", 7.62), ("Qwen/Qwen3-4B", 4.02)])
def test_parameters_of_the_papers_models(name, billions):
    """As published on the models' pages."""
    shape = estimate.shape_of(name)
    assert shape is not None
    assert shape.parameters / 1e9 == pytest.approx(billions, abs=0.01)


@pytest.mark.full  # imports transformers
def test_shape_of_a_real_toy_model(tmp_path):
    """Against what transformers builds; tied embeddings, biases aside."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    settings = Qwen2Config(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, intermediate_size=48, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    settings.save_pretrained(tmp_path)
    shape = estimate.shape_of(str(tmp_path))
    assert shape is not None
    model = Qwen2ForCausalLM(settings)
    biases = sum(value.numel() for name, value in model.named_parameters() if name.endswith("bias"))
    assert shape.parameters == sum(value.numel() for value in model.parameters()) - biases


def test_shape_unknown_or_odd(tmp_path):
    assert estimate.shape_of("someone/else") is None
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
    with pytest.raises(ValueError, match=r"config\.json: no hidden_size"):
        estimate.shape_of(str(tmp_path))


def test_memory_by_hand():
    made = config(actor_rollout_ref__actor__ppo_max_token_len_per_gpu=100)
    # state 16 B on two devices, one hidden state a layer, logits in bf16 and fp32
    expected = 16 * TINY.parameters / 2 + 2 * 100 * 8 * 2 + 6 * 100 * 10
    assert estimate.training(TINY, made, 2).size == expected
    assert estimate.rollout(TINY, made, 2, 1000.0).size == 500 + 12 * TINY.parameters / 2 + 4e9
    # a token: key and value, bf16, 2 layers, 1 head of 4
    count, formula = estimate.kv_sequences(TINY, made, 1e6, weights_in_it=False)
    assert count == pytest.approx(1e6 / (2 * 2 * 2 * 4 * 2048))
    assert "2048 tokens" in formula


@pytest.mark.parametrize(
    ("changes", "each", "at_once"),
    [
        ({}, 12, 20),  # fp32 weights, two moments; 400 steps, every 20
        ({"trainer__max_actor_ckpt_to_keep": 3}, 12, 3),
        ({"trainer__max_actor_ckpt_to_keep": 1}, 12, 2),  # until the next is complete
        ({"trainer__max_actor_ckpt_to_keep": 30}, 12, 20),
        ({"trainer__save_freq": -1}, 12, 0),
        ({"trainer__save_freq": 300}, 12, 2),  # 300, and the last step
        ({"trainer__save_freq": 500}, 12, 1),  # the last step
        ({"trainer__total_training_steps": None}, 12, 2),
        ({"rpg": {"reference": {"mode": "fixed"}}}, 12, 20),  # the model at the model's path
        ({"rpg": {"reference": {"mode": "every_k"}}}, 16, 20),
        ({"actor_rollout_ref__actor__fsdp_config__model_dtype": "bf16"}, 6, 20),
        ({"actor_rollout_ref__actor__checkpoint": {"save_contents": ["model", "hf_model"]}}, 8, 20),
    ],
)
def test_checkpoints_by_hand(changes, each, at_once):
    made = config(**changes)
    assert estimate.checkpoint(TINY, made).size == each * TINY.parameters
    assert estimate.checkpoints_at_once(made) == at_once


@pytest.mark.parametrize(("memory", "level"), [(80e9, "ok"), (40e9, "error")])
def test_memory_against_a_device(memory, level):
    """Qwen3-4B on one device: 64 GB of state alone."""
    shape = estimate.shape_of("Qwen/Qwen3-4B")
    assert shape is not None
    made = config(actor_rollout_ref__actor__ppo_max_token_len_per_gpu=4096)
    first = next(iter(budgets.needs(Run(made), shape, memory, estimate.training(shape, made, 1))))
    assert (first.key, first.level) == ("training", level)
    assert "16 B x 4.02e9 parameters" in first.wrong


CONTEXTS = [
    ("qwen2.5-math-7b", "2k"),
    *((m, c) for m in ("qwen2.5-7b-instruct", "qwen3-4b") for c in ("2k", "4k", "8k")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "length"), CONTEXTS)
def test_the_numbers_of_each_context_follow_from_the_arithmetic(model, length):
    """config/context and config/model: within every bound of the check, and not far below the bound of the cache."""
    made = resolve(compose_config([f"model={model}", f"context={length}", "rpg.script=x"]))
    rollout = made.config["actor_rollout_ref"]["rollout"]
    assert not list(budgets.context(made))
    assert rollout["max_model_len"] == 2048 + int(length[0]) * 1024
    if rollout["max_num_seqs"] < 512:  # above, vLLM has no CUDA graph
        rollout["max_num_seqs"] += 8
        assert "max_num_seqs" in "".join(map(str, budgets.context(made)))


def test_sequences_of_a_context_by_hand():
    """Qwen3-4B, 80 GB: 0.75 x 80e9 - 2 x 4.022e9 - 4e9 = 47.96e9 bytes; a token 2 x 2 x 36 x 8 x 128 = 147456."""
    shape = estimate.shape_of("Qwen/Qwen3-4B")
    made = config(actor_rollout_ref__rollout__gpu_memory_utilization=0.75)
    assert estimate.kv_tokens(shape, made, 80e9) == pytest.approx(47.96e9 / 147456, rel=1e-3)


def test_a_context_that_is_out_of_bounds():
    wrong = ["rollout.max_num_seqs=256", "rollout.gpu_memory_utilization=0.9", "rollout.max_model_len=null"]
    said = [f"actor_rollout_ref.{text}" for text in wrong] + ["rpg.stall_limit=7200", "trainer.save_freq=20"]
    made = resolve(compose_config(["model=qwen3-4b", "context=8k", "rpg.script=x", *said]))
    found = {finding.key: str(finding) for finding in budgets.context(made)}
    assert found.keys() == {text.partition("=")[0] for text in said}
    assert "93 sequences half-way through (256 + half the response = 4352 tokens)" in found[said[0].partition("=")[0]]


@pytest.mark.parametrize(("free", "bucket", "ranks", "level"), [
    (64, 128, 1, "error"),  # docker's /dev/shm
    (64, 16, 1, None),
    (64, 48, 2, "error"),
    (128, 128, 1, None),
])  # fmt: skip
def test_a_bucket_that_shared_memory_does_not_hold(tmp_path, monkeypatch, free, bucket, ranks, level):
    """100 MB of embeddings and little else: of a bucket no more is taken than there are weights."""
    toy = make_toy(tmp_path)
    sizes = {"hidden_size": 1000, "num_hidden_layers": 0, "intermediate_size": 1, "num_attention_heads": 1,
             "vocab_size": 25_000, "tie_word_embeddings": True}  # fmt: skip
    (toy / "model" / "config.json").write_text(json.dumps(sizes))
    there = SimpleNamespace(free=free * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: {"/dev/shm": there}[path])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = run_of(toy, f"{budgets.BUCKET}={bucket}", f"trainer.n_gpus_per_node={ranks}")
    found = list(budgets.shared_memory(run))
    assert [finding.level for finding in found] == ([level] if level else [])
    if found:
        assert "/dev/shm has 64 MiB free" in str(found[0])
        assert "(docker run --shm-size)" in str(found[0])
    run = run_of(toy, "trainer.device=cuda")
    assert not [*budgets.shared_memory(run), *budgets.weight_bucket(run)]  # CUDA's own way


def shape_of_size(parameters: float) -> estimate.Shape:
    """Of about so many parameters, in one embedding."""
    return estimate.Shape(int(parameters / 1000), 0, 1, 1, 1, 1, 1000, True)


def test_disk(tmp_path):
    """Against the real disk: what it can hold of 12 B a parameter, in checkpoints."""
    kept = {"trainer__default_local_dir": str(tmp_path / "not" / "there"), "trainer__max_actor_ckpt_to_keep": 3}
    free = shutil.disk_usage(tmp_path).free
    for held, level in ((3.5, "ok"), (2.5, "warning"), (1.5, "error")):
        [finding] = budgets.checkpoints_fit(Run(config(**kept)), shape_of_size(free / held / 12))
        assert finding.level == level
        assert "3 checkpoints at once of" in finding.wrong
        assert str(tmp_path) in finding.wrong
    # a run that is started again removes what is there of it
    for step in (20, 40):
        (tmp_path / f"global_step_{step}").mkdir()
    kept["trainer__default_local_dir"] = str(tmp_path)
    [finding] = budgets.checkpoints_fit(Run(config(**kept)), shape_of_size(free / 1.5 / 12))
    assert (finding.level, "2 of them are there already" in finding.wrong) == ("ok", True)
    [finding] = budgets.checkpoints_fit(Run(config(**kept, trainer__resume_mode="disable")), shape_of_size(free / 18))
    assert finding.level == "error"


def test_a_run_whose_disk_cannot_hold_two_checkpoints_is_refused(tmp_path, monkeypatch):
    """Before Ray: among the cheap checks. A model of 1e15 parameters, 12 PB a checkpoint."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    toy = make_toy(tmp_path)
    preflight.refuse(run_of(toy), ["cheap"])
    sizes = {"model_type": "qwen2", "hidden_size": 10**6, "num_hidden_layers": 1, "intermediate_size": 1,
             "num_attention_heads": 1, "vocab_size": 10**9, "tie_word_embeddings": True}  # fmt: skip
    (toy / "model" / "config.json").write_text(json.dumps(sizes))
    with pytest.raises(Refused, match=r"checkpoints: 2 checkpoints at once of 1.2e\+07 GB.* GB free at .*CKPTS_DIR"):
        preflight.refuse(run_of(toy), ["cheap"])


WANDB = "machine api.wandb.ai login user password x\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no WANDB_API_KEY, no "),
        (WANDB, None),
        (WANDB.replace("wandb", "example"), "nothing for api.wandb.ai in "),
        ("machine api.wandb.ai password\nlogni x", "netrc, line 2: bad follower token 'x'"),
        (b"\xff\x00", "netrc"),
    ],
)
def test_wandb(content, said, monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    if content is not None:
        (tmp_path / "netrc").write_bytes(content if isinstance(content, bytes) else content.encode())
    found = list(machine.wandb(Run(config())))
    assert [finding.level for finding in found] == ([] if said is None else ["warning"])
    if said is not None:
        assert said in str(found[0])
    assert not list(machine.wandb(Run(config(trainer__logger=["console"]))))
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert [finding.level for finding in machine.wandb(Run(config()))] == ["ok"]


def test_data(tmp_path):
    good = [Problem("toy_sum", f"What is {i} + 1?", str(i + 1), "train") for i in range(4)]
    test = [Problem("toy_sum", "What is 9 + 9?", "18", "test")]
    write_parquet(repeated_rows(good), tmp_path / "train.parquet")
    write_parquet(repeated_rows(test), tmp_path / "test.parquet")
    made = config(data__train_files=str(tmp_path / "train.parquet"), data__val_files=[str(tmp_path / "test.parquet")])
    assert [finding.level for finding in inputs.rows(Run(made))] == ["ok", "ok"]
    write_parquet(repeated_rows([Problem("toy_sum", good[0].text, "1", "test")]), tmp_path / "test.parquet")
    leaked = list(inputs.rows(Run(made)))
    assert [finding.level for finding in leaked] == ["ok", "error"]
    assert "rpg data check" in leaked[1].remedy


@pytest.mark.parametrize(
    ("probe", "level", "found"),
    [
        (
            f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES, *RPG_ESTIMATORS])!r})",
            "ok",
            f"{len(doctor.LOSS_NAMES)} losses",
        ),
        (
            f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES])!r})",
            "error",
            "not registered with verl: rpg, rpg_batch",
        ),
        ("raise RuntimeError('broken plugin')", "error", "broken plugin"),
        ("print('hello')", "error", "ends with 0"),
    ],
)
def test_plugin_answers(probe, level, found):
    finding = doctor.plugin("plugin", probe)
    assert finding.level == level
    assert found in finding.wrong


def test_versions(monkeypatch):
    found = list(doctor.versions(cpu=True))
    cpu_build = doctor.metadata.version("vllm").endswith("+cpu")  # elsewhere the pins of the GPU stack are met
    assert [finding.level for finding in found] == ["ok", "skip" if cpu_build else "ok"]
    real = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "5.6.0" if name == "transformers" else real(name))
    first, _ = doctor.versions(cpu=True)
    assert first.level == "error"
    assert "transformers 5.6.0, wanted" in first.wrong


@pytest.mark.full
def test_on_a_launch_script(capsys, tmp_path, monkeypatch):
    """The whole command, in this environment: a toy script whose only fault is that its files are missing."""
    monkeypatch.setenv("TRAIN_FILE", str(tmp_path / "none.parquet"))
    script = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
    from rpg.cli import main

    assert main(["doctor", str(script), "trainer.logger=[console]"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"ok    plugin here: {len(doctor.LOSS_NAMES)} losses and 2 estimators registered with verl" in lines
    missing = f"FAIL  data files: data.train_files={tmp_path / 'none.parquet'}: no such file; "
    assert any(line.startswith(missing) for line in lines)
    assert not any(line.startswith("FAIL  verl's") for line in lines)


@pytest.mark.full
def test_plugin_in_a_ray_worker():
    assert doctor.plugin("plugin in a Ray worker", doctor.RAY_PROBE).level == "ok"


def test_probe_is_python():
    compile(doctor.PROBE, "probe", "exec")
    compile(doctor.RAY_PROBE, "ray probe", "exec")
