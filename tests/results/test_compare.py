"""`rpg compare`: pairing, what does not compare, and the screen."""

import json
from pathlib import Path

import pytest

from rpg.diagnostics import UserError
from rpg.results.compare_command import compare, side
from tests.builders import runs


def write_run(directory: Path, seed: int, correct: list[int], reward: float, loss: str = "rpg_urkl") -> Path:
    """Write a run with one validation of len(correct) problems, and rewards at steps 1 and 2."""
    accuracy = {"val-core/toy/acc/mean@1": sum(correct) / len(correct)}
    lines = [(1, {"critic/score/mean": reward - 0.5}), (2, {"critic/score/mean": reward + 0.5}), (10, accuracy)]
    runs.write_run(directory, lines, runs.config(f"{loss}{seed}", loss=loss, seed=seed))
    samples = [{"input": f"problem {i}", "gts": None, "output": f"{acc}", "acc": acc} for i, acc in enumerate(correct)]
    runs.write_samples(directory, 10, samples)
    return directory


def compared(first: Path, second: Path) -> tuple[list[dict], list[str]]:
    return compare(side(first), side(second))


def test_two_runs_are_paired_over_problems(tmp_path):
    """Of the differences 1, 1, 0, -1: error 0.478714; Student's 0.975 with 3 degrees: 3.182446."""
    first = write_run(tmp_path / "a", 1, [0, 0, 1, 1], reward=0.1)
    second = write_run(tmp_path / "b", 1, [1, 1, 1, 0], reward=0.3, loss="vanilla")
    with (second / "metrics.jsonl").open("a") as log:
        log.write('{"step": 11, "data": {"critic/score/mean": 9}}\n')
    (accuracy, reward), notes = compared(first, second)
    assert "the training reward is the mean over steps 1 to 2" in notes
    assert (accuracy["first"], accuracy["second"], accuracy["over"]) == (0.5, 0.75, "problems")
    assert accuracy["interval"] == pytest.approx([0.25 - 1.523480, 0.25 + 1.523480], abs=1e-5)
    assert not accuracy["clear"]
    assert reward["difference"] == pytest.approx(0.2)
    assert reward["interval"] is None


def test_a_benchmark_of_one_side_is_named_and_samples_of_another_run_are_not_paired(tmp_path):
    first = write_run(tmp_path / "a", 1, [0, 0, 1, 1], reward=0.1)
    second = write_run(tmp_path / "b", 1, [1, 1, 1, 0], reward=0.3)
    (second / "validation/10.jsonl").write_text((first / "validation/10.jsonl").read_text())
    with (second / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"step": 11, "data": {"val-core/other/acc/mean@1": 0.5}}) + "\n")
    (accuracy, _), notes = compared(first, second)
    assert accuracy["interval"] is None
    assert any(note.startswith("other is not compared") for note in notes)


def test_a_run_is_compared_without_the_evaluations_in_it(tmp_path):
    first = write_run(tmp_path / "a", 1, [0, 0, 1, 1], reward=0.1)
    write_run(first / "eval-global_step_4", 1, [1, 1, 1, 1], reward=0.1, loss="vanilla")
    assert [run.directory for run in side(first)] == [run.directory for run in side(tmp_path)] == [first]


def test_runs_of_plain_verl_are_no_seeds_of_one_setting(tmp_path):
    for name in "ab":
        (write_run(tmp_path / name, 1, [0, 1], reward=0.1) / "config.yaml").unlink()
    with pytest.raises(UserError, match="its 2 runs are unknown"):
        side(tmp_path)


def test_seeds_are_paired_where_they_are_the_same(tmp_path):
    for seed, one, other in ((1, 0.1, 0.2), (2, 0.2, 0.35), (3, 0.3, 0.4)):
        write_run(tmp_path / "a" / str(seed), seed, [0, 1], reward=one)
        write_run(tmp_path / "b" / str(seed), seed, [0, 1], reward=other, loss="vanilla")
    (accuracy, reward), _ = compared(tmp_path / "a", tmp_path / "b")
    # differences 0.1, 0.15, 0.1: mean 0.116667, error 0.0166667; Student's 0.975 with 2 degrees: 4.302653
    assert reward["interval"] == pytest.approx([0.116667 - 0.071711, 0.116667 + 0.071711], abs=1e-5)
    assert (reward["over"], reward["clear"]) == ("paired seeds", True)
    assert not accuracy["clear"]  # equal differences, whose interval has no width
    write_run(tmp_path / "b" / "4", 4, [0, 1], reward=0.5, loss="vanilla")
    assert compared(tmp_path / "a", tmp_path / "b")[0][1]["over"] == "seeds"
    write_run(tmp_path / "b" / "5", 4, [0, 1], reward=0.5, loss="vanilla")
    write_run(tmp_path / "a" / "4", 4, [0, 1], reward=0.5)
    (_, reward), notes = compared(tmp_path / "a", tmp_path / "b")  # seeds 1, 2, 3, 4 and 1, 2, 3, 4, 4
    assert (reward["over"], notes[-1][:16]) == ("seeds", "runs of one seed")


def test_what_is_measured_in_another_way_is_said_and_not_bold(tmp_path):
    for seed in (1, 2, 3):
        for name, correct in (("a", [0, 0, 0, 1]), ("b", [1, 1, 1, seed % 2])):
            run = write_run(tmp_path / name / str(seed), seed, correct, reward=0.1 + (0.2 + seed / 100) * (name == "b"))
            if name == "b":
                settings = runs.config("b", seed=seed)
                settings["data"]["train_files"] = ["/other.parquet"]
                settings["data"]["max_response_length"] = 64
                (run / "config.yaml").write_text(json.dumps(settings))
            (run / "environment.json").write_text(json.dumps({"devices": ["H100"], "versions": {"vllm": name}}))
    outcomes, notes = compared(tmp_path / "a", tmp_path / "b")
    for outcome in outcomes:
        assert outcome["interval"][0] > 0
        assert not outcome["clear"]
    assert notes == [
        "the runs differ in versions (environment.json)",
        "the accuracies do not compare: data.max_response_length differ",
        "the training reward is the mean over steps 1 to 2",
        "the training rewards do not compare: data.train_files differ",
    ]
