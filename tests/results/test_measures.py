"""Numbers of different kinds under one name: each command takes the same kind, or says the difference."""

import json
from pathlib import Path

import pytest

from rpg.cli import main
from rpg.dotted import put
from tests.builders.runs import config, write_run

BEFORE, SCORE, ACCURACY = "critic/score_before_filtering/mean", "critic/score/mean", "val-core/toy/acc/mean@1"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
FUNCTION = "reward.custom_reward_function"


def run_of(folder: Path, metrics: dict, *, seed: int = 1, loss: str = "rpg_urkl", **settings: object) -> Path:
    """Write a run of two equal steps; settings: dotted keys with __ for the dot."""
    made = config(folder.name, loss=loss, seed=seed)
    for key, value in settings.items():
        put(made, key.replace("__", "."), value)
    return write_run(folder, [(step, {ACCURACY: 0.5, **metrics}) for step in (1, 2)], made)


def compared(capsys: pytest.CaptureFixture[str], *runs: Path) -> tuple[dict, str]:
    """Return outcome -> difference, and the notes as one text."""
    assert main(["compare", "--json", *map(str, runs)]) == 0
    report = json.loads(capsys.readouterr().out)
    return {one["outcome"]: one for one in report["comparisons"][0]["differences"]}, "\n".join(report["notes"])


def test_a_filtered_run_is_compared_by_its_score_before_filtering(tmp_path, capsys):
    """DAPO's kept groups score 0.44 more than all; over all groups both runs score -0.29."""
    plain = run_of(tmp_path / "a", {SCORE: -0.29})
    filtered = run_of(
        tmp_path / "b", {SCORE: 0.15, BEFORE: -0.29}, loss="vanilla", algorithm__filter_groups={"enable": True}
    )
    outcomes, notes = compared(capsys, plain, filtered)
    assert outcomes["training reward"]["difference"] == 0
    assert "not comparable" not in notes
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("reward -0.290") == 2


@pytest.mark.parametrize(
    ("settings", "outcome", "said"),
    [
        ({"algorithm__filter_groups": {"enable": True}}, "training reward", "groups is not set (A); kept by algorithm"),
        ({"reward__reward_kwargs__overlong_buffer_cfg": {"enable": True}}, "training reward", f"{OVERLONG}.enable is"),
        ({"data__train_files": ["/x/other.parquet"]}, "training reward", "data.train_files is None (A); other.parquet"),
        ({"data__max_response_length": 64}, "toy accuracy", "data.max_response_length is None (A); 64 (B)"),
        ({f"{FUNCTION}__path": "/x/mine.py"}, "toy accuracy", "reward function is release (A); mine.py (B)"),
        ({f"{FUNCTION}__reward_kwargs": {"scale": 2}}, "training reward", f"{FUNCTION}.reward_kwargs.scale is not set"),
    ],
)
def test_a_difference_in_what_is_measured_is_said_and_not_bold(tmp_path, capsys, settings, outcome, said):
    for seed in (1, 2, 3):
        run_of(tmp_path / "a" / str(seed), {SCORE: 0.1 * seed}, seed=seed)
        metrics = {SCORE: 0.1 * seed + 1 + 0.01 * seed, ACCURACY: 0.9 + 0.01 * seed}
        run_of(tmp_path / "b" / str(seed), metrics, seed=seed, **settings)
        run_of(tmp_path / "c" / str(seed), metrics, seed=seed)
    outcomes, notes = compared(capsys, tmp_path / "a", tmp_path / "b")
    assert f"{outcome.split()[-1] if 'accuracy' in outcome else outcome} is not comparable: " in notes
    assert said in notes
    assert not outcomes[outcome]["clear"]
    outcomes, notes = compared(capsys, tmp_path / "a", tmp_path / "c")
    assert "not comparable" not in notes
    assert outcomes[outcome]["clear"]


@pytest.mark.parametrize(("content", "comparable"), [("a", True), ("b", False), ("", True)])
def test_files_and_rewards_of_one_name_are_compared_by_their_contents(tmp_path, capsys, content, comparable):
    """Unless a run of an earlier version has not recorded them."""
    rewards = "reward.custom_reward_function.path (content)"
    for loss, recorded in (("rpg_urkl", "a"), ("vanilla", content)):
        run = run_of(tmp_path / loss, {SCORE: 0.1}, loss=loss, data__val_files=f"/{loss}/test.parquet")
        hashes = {"data.val_files (content)": [recorded * 64]} if recorded else {}
        (run / "environment.json").write_text(json.dumps(hashes))
        (run / "fingerprint.json").write_text(json.dumps({rewards: recorded * 64} if recorded else {}))
    assert main(["table", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for key in ("data.val_files (content)", rewards):
        said = f"accuracy is not comparable: {key} is bbbbbbbb (GRPO); aaaaaaaa (RPG-URKL)"
        assert (said in out) == (not comparable)


def test_rows_and_panels_that_measure_different_things_are_said(tmp_path, capsys):
    metrics = {SCORE: 0.1, "actor/entropy": 0.5, "response_length/mean": 9.0}
    filtered, agg = {"algorithm__filter_groups": {"enable": True}}, "actor_rollout_ref__actor__loss_agg_mode"
    run_of(tmp_path / "a", {**metrics, BEFORE: 0.0}, loss="vanilla", **filtered, data__max_response_length=32)
    run_of(tmp_path / "b", metrics, data__max_response_length=64, **{agg: "seq-mean-token-sum"}, trainer__test_freq=2)
    assert main(["table", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "accuracy is not comparable: data.max_response_length is 32 (DAPO); 64 (RPG-URKL)" in text
    assert "Best is not comparable: trainer.test_freq is None (DAPO); 2 (RPG-URKL)" in text
    assert "entropy" not in text  # a table does not show it
    assert "**0.5" not in text.replace("<u>", "**")  # rows of different kinds have no rank
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "plots")]) == 0
    shown = capsys.readouterr().err
    for said in ("entropy is not comparable: algorithm.filter_groups.enable is True (DAPO); None (RPG-URKL)",
                 "entropy is not comparable: actor_rollout_ref.actor.loss_agg_mode is",
                 "response length is not comparable: algorithm.filter_groups.enable is"):  # fmt: skip
        assert shown.count(said) == 1


def test_a_run_whose_reward_function_returned_no_acc_is_noted(tmp_path, capsys):
    """verl then logs the mean score under val-core; there is no accuracy to put into a column."""
    write_run(tmp_path / "own", [(1, {"val-core/mine/reward/mean@1": -0.4, SCORE: 0.1})], config("own"))
    run_of(tmp_path / "other", {SCORE: 0.2}, loss="vanilla")
    assert main(["table", str(tmp_path)]) == 1
    said = "own: no accuracy of mine: the reward function returned no acc, so verl logged the score"
    assert said in capsys.readouterr().out
    assert main(["table", str(tmp_path / "own")]) == 2
    assert f"none of the runs logged an accuracy; {said}" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "own"), str(tmp_path / "other")]) == 1
    assert said in capsys.readouterr().err


def test_each_kl_has_a_column_of_its_own(tmp_path, capsys):
    run_of(tmp_path / "a", {"actor/rpg_kl": 0.1, "actor/ppo_kl": 0.2})
    run_of(tmp_path / "b", {"actor/kl_loss": 0.3, "actor/ppo_kl": 0.4}, loss="vanilla")
    assert main(["watch", "--once", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "KL in the loss 0.1  KL to pi_old 0.2" in first
    assert "KL to pi_ref 0.3  KL to pi_old 0.4" in second
