"""Reading of resumed, cut and duplicate logs, of samples, and what tells runs apart."""

import json

import pytest

from rpg.diagnostics import UserError
from rpg.dotted import put
from rpg.results.runs import differing, find, load, measured_apart
from tests.builders.runs import config, records, write_run, write_samples

LINES = records([0.1, 0.3, 0.25])  # validations at steps 0, 2, 4


def test_runs_are_found_once_whatever_links_lead_to_them(tmp_path):
    run = write_run(tmp_path / "a/run", LINES)
    for folder in (tmp_path / "a", run):
        for n in range(9):  # which branch at each level
            (folder / f"link{n}").symlink_to(tmp_path)
    assert find([tmp_path, run, tmp_path / "a"]) == [run]


@pytest.mark.parametrize("line", ["{", '{"step": 5, "loss": 1}', '{"data": {}}', '{"step": 5, "data": 1}', "[1]", "5"])
def test_a_cut_off_last_line_is_left_out_and_a_broken_one_named(tmp_path, line):
    """Every killed run leaves a cut one; other tools write a metrics.jsonl, too."""
    file = write_run(tmp_path / "a", LINES) / "metrics.jsonl"
    file.write_text(file.read_text()[:-20])
    assert load(tmp_path / "a").frame.index[-1] == 3
    file.write_text(f"{line}\n{file.read_text()}")
    with pytest.raises(UserError, match=r"metrics.jsonl, line 1: .*; correct or remove the line"):
        load(tmp_path / "a")


def test_of_a_resumed_run_the_later_record_of_a_step_counts(tmp_path):
    """Also if the resume changed the number of answers to each problem."""
    one, more = (f"val-core/aime24/acc/mean@{k}" for k in (1, 32))
    lines = [(1, {"x": 1, one: 0.1}), (2, {"x": 2, one: 0.2}), (2, {"x": 9, "y": 1, more: 0.586}), (3, {one: 0.4})]
    run = load(write_run(tmp_path, lines, config("a", steps=3)))
    assert {name: run.series(name).to_dict() for name in "xy"} == {"x": {1: 1.0, 2: 9.0}, "y": {2: 1.0}}
    assert run.accuracies["AIME24"].to_dict() == {1: 0.1, 2: 0.586, 3: 0.4}


def test_two_spellings_of_one_benchmark_are_refused(tmp_path):
    write_run(tmp_path / "a", [(0, {"val-core/aime24/acc/mean@1": 0.1, "val-core/AIME24/acc/mean@1": 0.2})])
    with pytest.raises(UserError, match="evaluate one file of each benchmark"):
        _ = load(tmp_path / "a").accuracies


def test_changed_settings_missing_rewards_and_validations_are_noted(tmp_path):
    lines = [*LINES, (5, {"val-core/mine/reward/mean@1": 0.5})]  # of a reward function without acc
    run_dir = write_run(tmp_path / "a", lines, config("a"))
    starts = [{"after_step": 0, "changed": {}}, {"after_step": 2, "changed": {"data.seed": [1, 2]}}]
    (run_dir / "environment.json").write_text(json.dumps({"starts": starts}))
    (run_dir / "left_out.jsonl").write_text('{"step": 0, "why": "ValueError: no number"}\n')
    first, second, *others = load(run_dir).notes
    assert first == "after step 2: data.seed 1 -> 2"
    assert second.startswith("1 responses have no reward: accuracies count them as wrong")
    assert others == [
        "mine: validated without accuracy; a reward function returns acc beside score",
        "AIME24: last validated at step 4, the log ends at step 5",
    ]


def sample(problem: str, acc: float | None, **more: object) -> dict:
    return {"input": problem, "output": "o", "gts": "1", "acc": acc, **more}


def test_samples_of_two_sets_are_told_apart_by_their_data_source(tmp_path):
    """Which our reward worker writes; of plain verl's, without it, none has the logged accuracy of its set."""
    lines = [(2, {"val-core/aime24/acc/mean@2": 0.5, "val-core/amc23/acc/mean@2": 1.0})]
    run_dir = write_run(tmp_path, lines, config("a", steps=2))
    samples = [sample("p", acc, data_source=name) for name, acc in (("aime24", 0), ("aime24", 1), ("amc23", 1))]
    write_samples(run_dir, 2, samples)
    assert load(run_dir).samples(2).groupby("benchmark")["acc"].mean().to_dict() == {"AIME24": 0.5, "AMC23": 1.0}
    write_samples(run_dir, 2, [*samples[1:], sample("p", None, data_source="aime24")])
    assert (run := load(run_dir)).samples(2)["acc"].tolist() == [1, 0, 1]  # verl counts an answer without acc as wrong
    assert "1 answers to AIME24 in" in run.notes[0]
    write_samples(run_dir, 2, [sample("p", acc) for acc in (0, 1, 1)])
    run = load(run_dir)
    assert run.samples(2).empty
    assert "their accuracy is 0.6667, the log has 0.5000" in run.notes[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reward.custom_reward_function.reward_kwargs", {"scale": 2}),
        ("data.val_files", ["/x/other.parquet"]),
        ("data.filter_overlong_prompts", True),
        ("data.train_batch_size", 7),
    ],
)
def test_accuracies_compare_where_they_are_measured_alike(tmp_path, key, value):
    other = config("b")
    put(other, key, value)
    runs = [load(write_run(tmp_path / name, LINES, made)) for name, made in (("a", config("a")), ("b", other))]
    named = f"{key}.scale" if key.endswith("kwargs") else key
    note = f"the accuracies do not compare: {named} differ"
    assert measured_apart(runs, "accuracies") == ([] if key == "data.train_batch_size" else [note])


def test_another_runs_checkpoint_other_code_and_another_model_are_settings(tmp_path):
    """Validation files of equal contents are one, in whatever place."""
    made = [config("a") for _ in range(3)]
    for n, (run, origin) in enumerate(zip(made, (None, tmp_path / "0/global_step_2", "/x/global_step_2"), strict=True)):
        run["trainer"] |= {"default_local_dir": str(tmp_path / "0"), "resume_from_path": origin and str(origin)}
        run["data"]["val_files"], digest = f"/{n}/test.parquet", "ab"[n == 0] * 64
        contents = {"code": [digest], "model": {"config": "Q/Q", "weights": digest}, "data.val_files": ["c" * 64]}
        write_run(tmp_path / str(n), LINES, run)
        (tmp_path / str(n) / "environment.json").write_text(json.dumps({"contents": contents}))
    runs = [load(tmp_path / str(n)) for n in range(3)]
    assert differing(runs[:2]) == {"code": ["b" * 8, "a" * 8], "model": ["Q/Q, bbbbbbbb", "Q/Q, aaaaaaaa"]}
    assert differing(runs[1:]) == {"checkpoint": [None, "/x/global_step_2"]}


@pytest.mark.parametrize(("each", "lost", "left_out"), [(4, 1, 1), (1, 1, 1), (2, 4, 5), (4, 2, 1)])
def test_responses_without_a_reward_count_as_wrong(tmp_path, each, lost, left_out):
    """The last answers to ten problems, of which all others are right; of five, one is of another set."""
    accuracy = {f"val-core/aime24/acc/mean@{each}": 1 - lost / (10 * each), "validation/left_out_responses": left_out}
    answered = [sample(f"p{n // each}", 1) for n in range(10 * each - lost)]
    write_samples(write_run(tmp_path, [(2, accuracy)]), 2, answered)
    answers = load(tmp_path).samples(2)
    assert list(answers.groupby("problem").size()) == ([each] * 10 if lost <= left_out else [])
    assert answers["acc"].sum() == (10 * each - lost if lost <= left_out else 0)
