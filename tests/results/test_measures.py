"""Accuracies compare only between runs that were validated alike; each command says where they were not."""

import json
from pathlib import Path

import pytest

from rpg.cli import main
from rpg.dotted import put
from tests.builders.runs import config, write_run

BEFORE, SCORE, ACCURACY = "critic/score_before_filtering/mean", "critic/score/mean", "val-core/toy/acc/mean@1"
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
    filtered = run_of(tmp_path / "b", {SCORE: 0.15, BEFORE: -0.29}, loss="vanilla")
    assert compared(capsys, plain, filtered)[0]["training reward"]["difference"] == 0
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("reward -0.290") == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data__max_response_length": 64}, "data.max_response_length"),
        ({f"{FUNCTION}__path": "/x/mine.py"}, "judge"),
        ({f"{FUNCTION}__reward_kwargs": {"scale": 2}}, f"{FUNCTION}.reward_kwargs.scale"),
        ({"data__val_files": ["/x/other.parquet"]}, "data.val_files"),
    ],
)
def test_a_difference_in_what_is_measured_is_said_and_not_bold(tmp_path, capsys, settings, said):
    for seed in (1, 2, 3):
        run_of(tmp_path / "a" / str(seed), {SCORE: 0.1 * seed}, seed=seed)
        metrics = {SCORE: 0.1 * seed + 1 + 0.01 * seed, ACCURACY: 0.9 + 0.01 * seed}
        run_of(tmp_path / "b" / str(seed), metrics, seed=seed, **settings)
        run_of(tmp_path / "c" / str(seed), metrics, seed=seed)
    outcomes, notes = compared(capsys, tmp_path / "a", tmp_path / "b")
    assert said in notes
    assert not outcomes["toy accuracy"]["clear"]
    outcomes, notes = compared(capsys, tmp_path / "a", tmp_path / "c")
    assert "compare" not in notes
    assert outcomes["toy accuracy"]["clear"]


@pytest.mark.parametrize(("content", "comparable"), [("a", True), ("b", False), ("", True)])
def test_files_of_one_name_are_compared_by_their_contents(tmp_path, capsys, content, comparable):
    """Unless a run has not recorded them."""
    for loss, recorded in (("rpg_urkl", "a"), ("vanilla", content)):
        run = run_of(tmp_path / loss, {SCORE: 0.1}, loss=loss, data__val_files=f"/{loss}/test.parquet")
        hashes = {"data.val_files": [recorded * 64]} if recorded else {}
        (run / "environment.json").write_text(json.dumps({"contents": hashes}))
    assert main(["table", str(tmp_path)]) == 0
    assert ("data.val_files (" in capsys.readouterr().out) == (not comparable)


def test_a_run_whose_reward_function_returned_no_acc_is_noted(tmp_path, capsys):
    """verl then logs the mean score under val-core; there is no accuracy to put into a column."""
    write_run(tmp_path / "own", [(1, {"val-core/mine/reward/mean@1": -0.4, SCORE: 0.1})], config("own"))
    run_of(tmp_path / "other", {SCORE: 0.2}, loss="vanilla")
    assert main(["table", str(tmp_path)]) == 1
    said = "own: no accuracy of mine"
    assert said in capsys.readouterr().out
    assert main(["table", str(tmp_path / "own")]) == 2
    assert said in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "own"), str(tmp_path / "other")]) == 1
    assert said in capsys.readouterr().err


def test_each_kl_has_a_column_of_its_own(tmp_path, capsys):
    run_of(tmp_path / "a", {"actor/rpg_kl": 0.1, "actor/ppo_kl": 0.2})
    run_of(tmp_path / "b", {"actor/kl_loss": 0.3, "actor/ppo_kl": 0.4}, loss="vanilla")
    assert main(["watch", "--once", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "KL to pi_ref (rpg_kl) 0.1  KL to pi_old 0.2" in first
    assert "KL to pi_ref (kl_loss) 0.3  KL to pi_old 0.4" in second
