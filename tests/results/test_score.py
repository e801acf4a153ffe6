"""`rpg score`: saved samples scored again, by judges and by reward functions; a reward tried on rows."""

import hashlib
import itertools
import json
from pathlib import Path

import pytest

from rpg.cli import main
from rpg.data.parquet import write
from rpg.results.runs import load
from rpg.results.score_command import reward_of
from rpg.toy.sums import toy_problems
from tests.builders.runs import config, write_run, write_samples

# right by release; verified also accepts the next two; the last has a line end that is none in JSON
ANSWERS = {"Answer: 7": 1.0, "**Answer:** 7": 0.0, r"So \boxed{7}.": 0.0, "First\u2028then\x85 Answer: 8": 0.0}
RELEASE, VERIFIED = 1 / 4, 3 / 4


def saved_run(directory: Path, source: str = "aime24") -> Path:
    """Write a run under judge=release, validated at 0, 2 and 4, with samples of 4 answers to each of 3 problems."""
    settings = config("rpg_cpu_urkl1e-4")
    function = {"path": "pkg://rpg.rewards", "name": "compute_score", "reward_kwargs": {"judge": "release"}}
    settings["reward"] = {"custom_reward_function": function}
    lines = [(step, {} if step % 2 else {f"val-core/{source}/acc/mean@4": RELEASE}) for step in range(5)]
    run_dir = write_run(directory, lines, settings)
    samples = []
    for n, (answer, acc) in itertools.product(range(3), ANSWERS.items()):
        samples.append({"input": f"what is {n} + 7?", "output": answer, "gts": "7", "score": 2 * acc - 1, "acc": acc,
                        "pred": "?", "x": 1, "data_source": source, "extra_info": '{"split": "test"}'})  # fmt: skip
    for step in (0, 2, 4):
        write_samples(run_dir, step, samples)
    return run_dir


def score(*arguments: object) -> int:
    return main(["score", *map(str, arguments)])


def test_an_answer_without_a_score_counts_as_wrong(tmp_path, capsys):
    """As in a run, and also in later tables. The reward reads a kept column."""
    run_dir = saved_run(tmp_path / "run")
    (reward := tmp_path / "mine.py").write_text("""
def strict(solution_str, ground_truth, extra_info):
    if "8" in solution_str:
        raise ValueError("an eight")
    return {"score": 1.0, "acc": float(extra_info["split"] == "test"), "length": len(solution_str)}
""")
    assert score(run_dir, "--reward", reward) == 0
    assert "3 samples could not be scored and count as wrong" in capsys.readouterr().err
    assert "NaN" not in (run_dir / "judge-mine.py/validation/0.jsonl").read_text()
    main(["table", str(run_dir / "judge-mine.py")])
    assert "0.7500 (±" in capsys.readouterr().out
    (contents,) = json.loads((run_dir / "judge-mine.py/environment.json").read_text())["contents"].values()
    assert contents == [hashlib.sha256(reward.read_bytes()).hexdigest()]
    (broken := tmp_path / "broken.py").write_text("def strict(solution_str, ground_truth): raise KeyError")
    assert score(run_dir, "--reward", broken, "--out", tmp_path / "none") == 2
    assert "step 0: no sample could be scored" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    for step in (0, 2, 4):
        write_samples(run_dir, step, [{"input": "", "gts": "7", "output": "", "acc": 1}])
    assert score(run_dir, "--judge", "verified") == 2
    assert "the answers to AIME24 in" in capsys.readouterr().err  # why none is used
    assert score(tmp_path) == 2
    assert f"such as {run_dir}" in capsys.readouterr().err


def test_another_judge_on_saved_samples(tmp_path, capsys):
    run_dir = saved_run(tmp_path / "run")
    assert score(run_dir, "--judge", "verified") == 0
    shown = capsys.readouterr().out
    assert "| RPG-URKL (judge release) | 0.2500 | 0.2500" in shown
    assert "| RPG-URKL (judge verified) | 0.7500 | 0.7500" in shown
    run = load(run_dir / "judge-verified")
    assert run.accuracies["AIME24"].to_dict() == dict.fromkeys((0, 2, 4), VERIFIED)
    assert (run.judge, run.method) == ("verified", "RPG-URKL")
    answers = run.samples(4)
    verdicts = answers[["acc", "score", "pred"]].to_numpy().tolist()
    assert verdicts == [*[[1, 1, "7"]] * 3, [0, -1, "8"]] * 3
    assert "x" not in answers  # of the run's own reward


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("f'boxed{{{ground_truth}}}' in solution_str", "may not see the form that the prompt asks for"),
        ("-1 - abs(float(solution_str.rpartition(':')[2]) - float(ground_truth))", "3 raised"),
    ],
)
def test_faults_of_a_reward_that_is_tried(tmp_path, capsys, value, said):
    """On three rows of the toy task, which have the paper's prompt."""
    rows, reward = tmp_path / "rows.parquet", tmp_path / "mine.py"
    write({rows: list(toy_problems("train", seed=0, count=3))})
    reward.write_text(f"def reward(solution_str, ground_truth):\n    return {value}\n")
    assert score(rows, "--reward", reward) == 1
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize("row", [{"problem": "1 + 1?", "answer": "2"}, {"data_source": "math", "reward_model": None}])
def test_rows_that_were_not_built_are_named(tmp_path, capsys, row):
    (file := tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    assert score(file) == 2
    assert f"{file}: not in verl's schema; `rpg data build --from {file}`" in capsys.readouterr().err
    file.unlink()
    assert score(file) == 2
    assert f"{file}: no such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(("section", "limit"), [({}, 300), ({"reward_limit": None}, None), ({"reward_limit": 5}, 5)])
def test_a_reward_that_hangs_ends_as_in_a_run(tmp_path, section, limit):
    (reward := tmp_path / "mine.py").write_text("def reward(solution_str, ground_truth):\n    return 0\n")
    settings = {"rpg": section, "reward": {"custom_reward_function": {"reward_kwargs": {"file": str(reward)}}}}
    assert reward_of(settings).keywords["reward_limit"] == limit
