"""`rpg compare`: intervals against hand calculations, pairing, and rejected input."""

import json
from pathlib import Path

import pytest

from rpg.cli import main
from tests.builders import runs


def write_run(directory: Path, seed: int, correct: list[int], reward: float, loss: str = "rpg_urkl") -> Path:
    """Write a run with one validation of len(correct) problems, and rewards at steps 1 and 2."""
    accuracy = {"val-core/toy/acc/mean@1": sum(correct) / len(correct)}
    lines = [(1, {"critic/score/mean": reward - 0.5}), (2, {"critic/score/mean": reward + 0.5}), (10, accuracy)]
    runs.write_run(directory, lines, runs.config(f"{loss}{seed}", loss=loss, seed=seed))
    samples = [{"input": f"problem {i}", "gts": "1", "output": f"{acc}", "acc": acc} for i, acc in enumerate(correct)]
    runs.write_samples(directory, 10, samples)
    return directory


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main(["compare", "--json", *map(str, arguments)]) == 0
    return json.loads(capsys.readouterr().out)["comparisons"][0]


def test_two_runs_are_paired_over_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first = write_run(tmp_path / "a", 1, [0, 0, 1, 1], reward=0.1)
    second = write_run(tmp_path / "b", 1, [1, 1, 1, 0], reward=0.3, loss="vanilla")
    report = compared(capsys, first, second)
    accuracy, reward = report["differences"]
    assert (accuracy["first"], accuracy["second"], accuracy["over"]) == (0.5, 0.75, "problems, paired")
    # differences 1, 1, 0, -1: mean 0.25, deviation 0.957427, error 0.478714; Student's 0.975 with 3 degrees: 3.182446
    assert accuracy["interval"] == pytest.approx([0.25 - 1.523480, 0.25 + 1.523480], abs=1e-5)
    assert not accuracy["clear"]
    assert reward["difference"] == pytest.approx(0.2)
    assert reward["interval"] is None
    loss = "actor_rollout_ref.actor.policy_loss.loss_mode"
    assert list(report["settings"]) == [loss, "algorithm.adv_estimator", "rpg.method"]
    assert [one["problem"] for one in report["answers"]] == ["problem 0", "problem 1"]
    assert len(compared(capsys, first, second, "--answers", 3)["answers"]) == 3


def test_any_ground_truth_identifies_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Null, as of tasks that only a rule scores, and a list; the first of two answers does not decide."""
    for name, accuracies in (("a", (1, 0, 0, 0)), ("b", (0, 1, 0, 0))):
        write_run(tmp_path / name, 1, list(accuracies), reward=0.1)
        answers = [{"input": "p", "gts": truth, "output": f"{name}", "acc": acc}
                   for truth, acc in zip((None, None, [1], [1]), accuracies, strict=True)]  # fmt: skip
        runs.write_samples(tmp_path / name, 10, answers)
    accuracy, _ = (report := compared(capsys, tmp_path / "a", tmp_path / "b"))["differences"]
    assert accuracy["over"] == "problems, paired"
    assert report["answers"] == []  # both solve one of two
    assert main(["table", str(tmp_path / "a")]) == 0
    assert "0.2500 [0.00, 0.50]" in capsys.readouterr().out


def test_a_benchmark_of_one_side_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("a", "b"):
        write_run(tmp_path / name, 1, [0, 1], reward=0.1)
    with (tmp_path / "b" / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"step": 11, "data": {"val-core/other/acc/mean@1": 0.5}}) + "\n")
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "other is not compared: rpg_urkl1" in capsys.readouterr().err


def test_seeds_are_paired_where_they_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for seed, one, other in ((1, 0.1, 0.2), (2, 0.2, 0.35), (3, 0.3, 0.4)):
        write_run(tmp_path / "a" / str(seed), seed, [0, 1], reward=one)
        write_run(tmp_path / "b" / str(seed), seed, [0, 1], reward=other, loss="vanilla")
    reward = compared(capsys, tmp_path / "a", tmp_path / "b")["differences"][1]
    # differences 0.1, 0.15, 0.1: mean 0.116667, error 0.0166667; Student's 0.975 with 2 degrees: 4.302653
    assert reward["interval"] == pytest.approx([0.116667 - 0.071711, 0.116667 + 0.071711], abs=1e-5)
    assert reward["over"] == "seeds, paired"
    assert reward["clear"]
    write_run(tmp_path / "b" / "4", 4, [0, 1], reward=0.5, loss="vanilla")
    assert compared(capsys, tmp_path / "a", tmp_path / "b")["differences"][1]["over"] == "seeds"


def test_equal_differences_are_not_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Their deviation is 0 but for rounding."""
    for side, reward in (("a", 0.1), ("b", 0.2)):
        for seed in (1, 2, 3):
            write_run(tmp_path / side / str(seed), seed, [1, 0], reward)
    report = compared(capsys, tmp_path / "a", tmp_path / "b")
    assert [one["clear"] for one in report["differences"]] == [False, False]


def test_runs_of_several_settings_are_no_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_run(tmp_path / "a" / "1", 1, [0, 1], reward=0.1)
    write_run(tmp_path / "a" / "2", 2, [0, 1], reward=0.1, loss="vanilla")
    other = write_run(tmp_path / "b", 1, [0, 1], reward=0.1)
    assert main(["compare", str(tmp_path / "a"), str(other)]) == 2
    assert "algorithm.adv_estimator" in capsys.readouterr().err


def test_samples_of_another_run_are_not_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first = write_run(tmp_path / "a", 1, [0, 0, 1, 1], reward=0.1)
    second = write_run(tmp_path / "b", 1, [1, 1, 1, 0], reward=0.3)
    (second / "validation" / "10.jsonl").write_text((first / "validation" / "10.jsonl").read_text())
    assert main(["compare", "--json", str(first), str(second)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["comparisons"][0]["differences"][0]["interval"] is None
    note = "its samples of toy have accuracy 0.5000, the log has 0.7500: samples of another run"
    assert any(note in one for one in report["notes"])


def test_the_screen_has_values_under_their_key_and_cuts_with_an_ellipsis(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("a", "b"):
        write_run(tmp_path / name, 1, [0, 1], reward=0.1)
        settings = runs.config(name)
        settings["data"]["train_files"] = f"/common/{'path/' * 30}{name}/{'x' * 80}.parquet"
        (tmp_path / name / "config.yaml").write_text(json.dumps(settings))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--answers", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    where = lines.index("data.train_files")
    assert lines[where + 1].startswith("  A  …/a/x")
    assert lines[where + 2].startswith("  B  …/b/x")
    assert lines[where + 1].endswith("…")
    assert max(map(len, lines)) <= 80
