"""Every check of pre-flight refuses what it is for, by key, value and remedy; the sound run passes all."""

import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from rpg import rewards
from rpg.checks import preflight
from rpg.checks.finding import CHEAP_OR_VERL, Run
from rpg.checks.off_policy import CRITERIA, threshold_is_taken
from rpg.checks.schema import SCHEMA
from rpg.data.parquet import SCHEMA as COLUMNS
from rpg.files import manifest
from tests.checks.cases import CASES, ELSEWHERE, KWARGS, LOG_PROBS, RS, A, L
from tests.checks.conftest import make_toy, refusal, run_of, safetensors
from tests.files.written import write_complete

EACH = [(name, overrides, said) for name, cases in CASES.items() for overrides, said in cases]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory) -> Path:
    """The toy run and the files that the cases name."""
    toy = make_toy(tmp_path_factory.mktemp("toy"))
    (toy / "mine.py").write_text("def compute_score(**kwargs):\n    return 1.0\n")
    (toy / "bad.parquet").write_text("not a parquet file")
    pq.write_table(pa.table({"question": ["1 + 1"]}), toy / "other.parquet")
    pq.write_table(COLUMNS.empty_table(), toy / "empty.parquet")
    table = pq.read_table(toy / "test.parquet")
    riddles = table.set_column(0, "data_source", pa.array(["riddles"] * len(table)))
    pq.write_table(riddles, toy / "riddles.parquet")
    for task in ("chainsum", "chain_sum"):
        source = pa.array([f"reasoning-gym/{task}"] * len(table))
        pq.write_table(table.set_column(0, "data_source", source), toy / f"{task}.parquet")
    (toy / "global_step_1").mkdir()
    (toy / "resumed").mkdir()
    (toy / "resumed/latest_checkpointed_iteration.txt").write_text("5")
    manifest.begin(toy / "cut/global_step_2")
    (write_complete(toy / "cut", 4) / "actor/model_world_size_2_rank_1.pt").write_bytes(b"")
    return toy


@pytest.mark.slow
@pytest.mark.parametrize(("name", "overrides", "said"), EACH, ids=[f"{name}-{o}" for name, o, _ in EACH])
def test_what_a_check_refuses(furnished, name, overrides, said, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = run_of(furnished, *(item.replace("{toy}", str(furnished)) for item in overrides))
    text = refusal(run)
    for words in said:
        assert words.replace("{toy}", str(furnished)) in text
    asked = next(check for check in preflight.CHECKS if check.name == name)
    assert any(finding.level == "error" for finding in asked(run)), f"{name} itself finds nothing"


def test_a_set_whose_library_is_missing_is_refused(furnished, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(rewards.gym, "is_installed", lambda: False)
    text = refusal(run_of(furnished, f"data.train_files={furnished}/chain_sum.parquet"))
    assert "is scored by reasoning-gym, which is not installed" in text
    assert "pip install '.[reasoning-gym]'" in text


def test_every_check_has_cases():
    assert {check.name for check in preflight.CHECKS} == CASES.keys() | ELSEWHERE.keys()
    for place in ELSEWHERE.values():
        file, test = place.split(": ")
        assert f"def {test}(" in Path(__file__).with_name(file).read_text()
    names = [check.name for check in preflight.CHECKS]
    assert len(names) == len(set(names))


def test_the_page_of_checks_is_current():
    root = Path(__file__).parents[2]
    listed = subprocess.run(
        [sys.executable, str(root / "scripts/list_checks.py")], capture_output=True, text=True, check=True
    )
    assert listed.stdout == (root / "docs/checks.md").read_text(), "python scripts/list_checks.py --into docs/checks.md"


def test_every_key_that_the_recipe_sets_is_in_the_schema():
    config = Path(__file__).parents[2] / "recipe/rpg/config"
    unknown = {key for file in config.rglob("*.yaml") for key in keys_of(file)} - SCHEMA.keys()
    assert not {key for key in unknown if not key.startswith((KWARGS, "rpg.env.", "rpg.reference."))}


def keys_of(file: Path) -> Iterator[str]:
    """The dotted keys that a file of the recipe's configuration sets."""
    text = file.read_text()
    package = re.search(r"# @package (\S+)", text)
    prefix = "" if package is None or package[1] == "_global_" else package[1]

    def walk(key: str, value: object) -> Iterator[str]:
        if key in SCHEMA or not (isinstance(value, dict) and value):
            yield key
            return
        for name, inner in value.items():
            yield from walk(f"{key}.{name}" if key else name, inner)

    plain = yaml.safe_load(text) or {}
    plain.pop("defaults", None)
    return walk(prefix, plain) if plain else iter(())


def test_a_sound_run_passes_every_check(toy, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    found = [finding for _, all_found in preflight.ask(run_of(toy), CHEAP_OR_VERL) for finding in all_found]
    assert not [str(finding) for finding in found if finding.level != "ok"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        [f"+{KWARGS}.time_limit=1.5"],
        ["judge=verified", f"+{KWARGS}.boxed_fallback=false"],
        [f"reward.custom_reward_function.path={Path(rewards.__file__)}"],
        [f"{L}=rpg_ufkl", f"+{A}.policy_loss.z_old=2.0"],
        [f"{A}.use_kl_loss=true", f"{A}.kl_loss_coef=0.0"],
        ["algorithm.use_kl_in_reward=true", "algorithm.kl_ctrl.kl_coef=0"],
        ["method=grpo"],
        ["method=rfpp", "optim=schedulefree"],
        ["reference=every_k"],
        ["reference=every_k", "schedule=async", "pi_old=behavior"],
        ["schedule=async", "pi_old=recomputed"],
        [LOG_PROBS, f"{RS}=token_k1", f"{RS}_threshold=2"],
        ["pi_old=decoupled", f"{RS}='token_k1, seq_mean_k3'", f"{RS}_threshold='0.5_2,0.01'"],
        ["method=rpg", f"+{A}.policy_loss.clip_scope=regularized"],
        [f"+{A}.policy_loss.clip_branch=advantage"],
        ["+rpg.env.MINE=1", "+rpg.max_num_seqs.mine=4"],
        ["schedule=async", "algorithm.rollout_correction.rollout_is=sequence"],
        ["method=grpo", "schedule=async"],
        ["trainer.logger=console"],
        ["trainer.total_training_steps=null", "rpg.time_limit=null", "rpg.stall_limit=0.5"],
    ],
)
def test_what_is_right_though_it_is_unusual(toy, overrides, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    run = run_of(toy, *overrides)
    preflight.refuse(run, CHEAP_OR_VERL)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["method=grpo", "rpg.kl_coef=3e-3"], f"coefficient in force is {A}.kl_loss_coef=0.001; leave it out, and set"),
        (["method=dapo", "rpg.kl_coef=3e-3"], "rpg.kl_coef=0.003: reaches nothing: this run has no KL"),
        (["rpg.kl_coef=3e-3", f"{A}.policy_loss.kl_coef=0.5"], f"in force is {A}.policy_loss.kl_coef=0.5"),
        (["method=rfpp", "rpg.kl_coef=3e-3"], None),
        (["method=grpo", "rpg.kl_coef=1e-3"], None),
        (["method=dapo", "rpg.kl_coef=0"], None),
        (["rpg.kl_coef=3e-3"], None),
    ],
)
def test_a_beta_that_reaches_no_kl_is_told(toy, overrides, said, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    warnings = preflight.refuse(run_of(toy, *overrides), ["cheap"])
    about = [str(finding) for finding in warnings if finding.key == "rpg.kl_coef"]
    assert len(about) == (said is not None)
    assert said is None or said in about[0]


@pytest.mark.slow
def test_the_criteria_of_rejection_are_those_of_verl():
    from verl.trainer.ppo.rollout_corr_helper import SUPPORTED_ROLLOUT_RS_OPTIONS, _parse_rollout_rs_thresholds

    assert set(CRITERIA) == SUPPORTED_ROLLOUT_RS_OPTIONS
    for name in CRITERIA:
        for text in ("2", "0.5", "0.5_2", "2_0.5", "1_", "_2", "0", "-1", "abc", "1e-3"):
            try:
                _parse_rollout_rs_thresholds([name], text)
                taken = True
            except (ValueError, ZeroDivisionError):
                taken = False
            assert threshold_is_taken(name, text) is taken, (name, text)


def test_a_reward_function_of_ones_own(furnished, monkeypatch):
    path = f"reward.custom_reward_function.path={furnished / 'mine.py'}"
    preflight.refuse(run_of(furnished, path, f"~{KWARGS}.judge"), ["cheap"])
    riddles = f"data.val_files={furnished / 'riddles.parquet'}"
    preflight.refuse(run_of(furnished, path, f"~{KWARGS}.judge", riddles), ["cheap"])


WRONG = {int: ["abc", 2.5, True, [], None], float: ["abc", float("nan"), float("inf"), [], {}], bool: ["yes", 1, []],
         str: [1, [], {}, ""]}  # fmt: skip


@pytest.mark.parametrize("key", SCHEMA)
def test_no_key_of_the_schema_takes_anything(toy_config, key):
    """Of every kind of value there is one that the key refuses; what it holds in the toy run, it takes."""
    rule, held = SCHEMA[key], toy_config.get(key, None)
    if held is not None:
        assert rule.accepts(held)
    refused = [value for values in WRONG.values() for value in values if not rule.accepts(value)]
    assert len(refused) >= 6
    if type(held) in WRONG and key != "trainer.experiment_name":
        assert [value for value in WRONG[type(held)] if not rule.accepts(value)]


@pytest.fixture(scope="module")
def toy_config(tmp_path_factory) -> Run:
    return run_of(make_toy(tmp_path_factory.mktemp("config")))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", b"{", "config.json cannot be read"),
        ("config.json", b"\xff\xfe\x00", "config.json cannot be read"),
        ("config.json", b"{}", "no model_type"),
        ("config.json", b"[]", "no model_type"),
        ("tokenizer.json", None, "no tokenizer files"),
        ("model.safetensors", None, "no weights"),
        ("model.safetensors", b"", "model.safetensors: is empty"),
        ("model.safetensors", b"\x00", "is cut off"),
        ("model.safetensors", safetensors()[:-1], "is cut off"),
        ("model.safetensors", b"\x02" + bytes(7) + b"[]", "is no safetensors file"),
        ("model.safetensors.index.json", b'{"weight_map": {"w": "x-2.safetensors"}}', "x-2.safetensors is missing"),
        ("model.safetensors.index.json", b"[]", "a readable model.safetensors.index.json is missing"),
    ],
)
def test_a_model_directory_that_is_not_whole(toy, toy_config, name, content, said):
    path = toy / "model" / name
    path.unlink() if content is None else path.write_bytes(content)
    run = Run(copy.deepcopy(toy_config.config))
    run.config["actor_rollout_ref"]["model"]["path"] = str(toy / "model")
    text = refusal(run)
    assert said in text
    assert f"actor_rollout_ref.model.path={toy / 'model'}" in text
