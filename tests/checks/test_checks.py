"""Every preflight check rejects its cases with key, value and remedy; a valid run passes all."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpg.checks import preflight, user
from rpg.config.compose import compose
from rpg.data.parquet import SCHEMA as COLUMNS
from rpg.data.parquet import Problem, write
from rpg.diagnostics import ABSENT, Refused, shown
from rpg.files import manifest
from tests.builders.checkpoints import write_complete
from tests.builders.toy_run import make_toy, overrides, run_of
from tests.checks.cases import CASES, RS, TRUNCATED, TYPES, WARNED, A, R


@pytest.fixture(scope="module")
def furnished(tmp_path_factory) -> Path:
    """Return the toy run with the files of the cases."""
    toy = make_toy(tmp_path_factory.mktemp("toy"))
    (toy / "mine.py").write_text("def compute_score(**kwargs):\n    return 1.0\n")
    (toy / "bad.parquet").write_text("not a parquet file")
    pq.write_table(pa.table({"question": ["1 + 1"]}), toy / "other.parquet")
    pq.write_table(COLUMNS.empty_table(), toy / "empty.parquet")
    table = pq.read_table(toy / "test.parquet")
    riddles = table.set_column(0, "data_source", pa.array(["riddles"] * len(table)))
    pq.write_table(riddles, toy / "riddles.parquet")
    letters = [Problem("MATH", f"Question {n}?", truth, "test") for n, truth in enumerate("ABCD")]
    write({toy / "letters.parquet": letters})
    (toy / "resumed").mkdir()
    (toy / "resumed/latest_checkpointed_iteration.txt").write_text("5")
    manifest.begin(toy / "cut/global_step_2")
    (write_complete(toy / "cut", 4) / "actor/model_world_size_2_rank_1.pt").write_bytes(b"")
    for file, config in (
        ("gptq/config.json", '{"model_type": "llama", "quantization_config": {"quant_method": "gptq"}}'),
        ("granite/config.json", '{"model_type": "granite", "logits_scaling": 8.0}'),
    ):
        (toy / file).parent.mkdir()
        (toy / file).write_text(config)
    return toy


CHECKS = {check.__name__: check for check in preflight.CHECKS}
EACH = [
    (name, *(case if isinstance(case, tuple) else (case, [case[-1]])))
    for name, cases in CASES.items()
    for case in cases
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "overrides", "blamed"), EACH, ids=[f"{name}-{o}" for name, o, _ in EACH])
def test_what_a_check_refuses(furnished, name, overrides, blamed, local_cpu):
    overrides, blamed = ([item.replace("{toy}", str(furnished)) for item in items] for items in (overrides, blamed))
    found = preflight.findings(CHECKS[name], run_of(furnished, *overrides))
    assert_blamed([finding for finding in found if finding.level == "error"], blamed)


@pytest.mark.slow
@pytest.mark.parametrize(("overrides", "blamed"), TYPES, ids=[str(o) for o, _ in TYPES])
def test_a_configuration_of_wrong_types_cannot_be_made(furnished, overrides, blamed):
    with pytest.raises(Refused) as refusal:
        run_of(furnished, *overrides)
    assert_blamed(refusal.value.diagnostics, blamed or [overrides[-1]])


def assert_blamed(errors, blamed):
    found = dict.fromkeys(f.key if f.value is ABSENT else f"{f.key}={shown(f.value)}" for f in errors)
    assert [item.replace("'", "") for item in found] == [item.lstrip("+").replace("'", "") for item in blamed]


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["judge=verified"],
        [f"{A}.use_kl_loss=true", f"{A}.kl_loss_coef=0.0"],
        ["reference=every_k", "schedule=async", "pi_old=behavior"],
        ["pi_old=decoupled", f"{R}.quantization=fp8", f"{RS}='token_k1, seq_mean_k3'", f"{RS}_threshold='0.5_2,0.01'"],
        [f"+{A}.policy_loss.clip_branch=advantage", "clip=0.1_0.1", f"{A}.clip_ratio_c=3"],
        ["method=rpg_rf", "rpg.divergence=fkl", "reference=fixed", "rpg.kl_scope=response", "rpg.rho_bound=5"],
        ["pi_old=behavior", f"{R}.top_p=0.8", TRUNCATED],
        ["pi_old=behavior", f"{R}.top_k=0", f"{R}.temperature=0.7", f"{R}.val_kwargs.top_p=0.7"],
        ["pi_old=behavior", f"{R}.logprobs_mode=raw_logprobs"],  # at temperature 1
    ],
)
def test_what_is_right_though_it_is_unusual(toy, overrides, local_cpu):
    assert preflight.refuse(run_of(toy, *overrides), preflight.CHECKS) == []  # not even a warning


@pytest.mark.parametrize(("name", "overrides", "said"), WARNED, ids=[f"{name}-{o}" for name, o, _ in WARNED])
def test_what_a_check_warns_of(toy, name, overrides, said):
    """said: the beginning of the warning; None: there is none."""
    warnings = [str(found) for found in CHECKS[name](run_of(toy, *overrides)) if found.level == "warning"]
    assert all(said and said in warning for warning in warnings)
    assert bool(warnings) == (said is not None)


def test_truths_are_tried_by_the_runs_own_judge(furnished):
    """CASES has the same file under judge=release; tests/data/test_check.py has the levels."""
    for judge in (["judge=verified"], ["judge=own", f"rpg.reward={furnished / 'mine.py'}"]):
        assert not list(user.truths(run_of(furnished, *judge, f"data.val_files={furnished / 'letters.parquet'}")))


@pytest.mark.parametrize(
    ("body", "level", "said"),
    [
        ("return {'score': ground_truth in solution_str, 'format': 1}", None, ""),
        ("return float(ground_truth not in solution_str)", "warning", "a wrong one 1"),
        ("raise KeyError(ground_truth)", "error", "KeyError"),
        ("while True: 1", "error", r"more than 0.5 s \(rpg.reward_limit\)"),
    ],
)
def test_doctor_tries_an_own_reward(furnished, tmp_path, body, level, said):
    (tmp_path / "mine.py").write_text(f"def reward(solution_str, ground_truth):\n  {body}\n")
    path, riddles = f"rpg.reward={tmp_path / 'mine.py'}", furnished / "riddles.parquet"
    run, _ = compose(None, [*overrides(furnished), path, f"data.val_files={riddles}", "rpg.reward_limit=0.5"])
    preflight.refuse(run, preflight.SETTINGS + preflight.PLACE)
    found = list(user.reward_trial(run))
    assert [one.level for one in found] == [level] * (level is not None)
    assert all(re.search(said, one.message) for one in found)


def test_a_filter_on_a_key_that_an_own_reward_lacks(furnished, tmp_path):
    (tmp_path / "mine.py").write_text("def reward(solution_str, ground_truth): return {'score': 1, 'format': 1}\n")
    chosen = ["judge=own", f"rpg.reward={tmp_path / 'mine.py'}", "algorithm.filter_groups.enable=true"]
    for metric, errors in (("format", []), ("reward", []), ("formt", ["algorithm.filter_groups.metric"])):
        findings = user.reward_trial(run_of(furnished, *chosen, f"algorithm.filter_groups.metric={metric}"))
        assert [found.key for found in findings if found.level == "error"] == errors
