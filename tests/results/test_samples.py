"""pass@k against enumeration, the interval against known cases, samples on disk against what was written."""

import itertools
import json

import numpy as np
import pytest
from synthetic import config, records, write_run

from rpg.data.parquet import Problem, repeated_rows, write_parquet
from rpg.data.template import format_prompt
from rpg.results.records import LeftOut, ResultsError
from rpg.results.runs import load_runs
from rpg.results.samples import Samples, pass_at_k, read_samples
from rpg.results.table import build_table


@pytest.mark.parametrize(("n", "c"), [(n, c) for n in range(1, 7) for c in range(n + 1)])
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one(n, c):
    outcomes = [True] * c + [False] * (n - c)
    for k in range(1, n + 1):
        subsets = list(itertools.combinations(outcomes, k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_pass_at_k_refuses(n, c, k):
    with pytest.raises(ValueError, match=f"pass@{k}"):
        pass_at_k(n, c, k)


def test_interval():
    assert Samples(0, (2, 2, 2), (2, 2, 2)).interval() == (1.0, 1.0)
    low, high = Samples(0, (1,) * 50 + (0,) * 50, (1,) * 100).interval()
    # 0.5 +- 1.96 sqrt(0.25 / 100) = 0.5 +- 0.098
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)


def test_interval_is_of_the_mean_over_samples():
    """A problem with 8 right answers and two with 4 wrong ones: Last is 8/16, the mean over problems 1/3."""
    samples = Samples(0, (8, 0, 0), (8, 4, 4))
    draws = [[(8, 8), (0, 4), (0, 4)][i] for i in np.random.default_rng(0).integers(3, size=(2000, 3)).ravel()]
    right, all_of_them = np.array(draws).reshape(2000, 3, 2).sum(axis=1).T
    assert samples.interval(0.2) == pytest.approx(tuple(np.quantile(right / all_of_them, [0.4, 0.6])))
    assert samples.interval(0.0) == (0.5, 0.5)


def test_interval_of_as_many_answers_each_is_to_the_last_bit_that_of_the_mean_over_problems():
    generator = np.random.default_rng(1)
    for total in (1, 3, 8, 10, 32):
        correct = generator.integers(total + 1, size=57)
        means = correct / np.full(57, total)
        drawn = means[np.random.default_rng(0).integers(57, size=(2000, 57))].mean(axis=1)
        low, high = np.quantile(drawn, [(1 - 0.95) / 2, (1 + 0.95) / 2])
        assert Samples(0, tuple(correct), (total,) * 57).interval() == (low, high)


def write_samples(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def sample(problem, acc, gts="1"):
    return {"input": f"user\nSolve.\n\n{problem}\n\nassistant\n", "output": "o", "gts": gts, "acc": acc}


def test_one_benchmark_in_the_table(tmp_path):
    run_dir = write_run(tmp_path / "a", records([0.1, 0.5]), config("a", steps=2))
    rows = [sample("p", 1.0), sample("p", 0.0), sample("q", 1.0), sample("q", 0.0)]
    write_samples(run_dir / "validation" / "2.jsonl", rows)
    notes = []
    cell = build_table(load_runs([run_dir], notes), notes).rows[0].cells["AIME24"]
    assert cell.interval == (0.5, 0.5)  # both problems have mean 1/2
    assert cell.pass_at == {1: pytest.approx(0.5), 2: pytest.approx(1.0)}


def test_pass_at_k_over_seeds_is_the_mean(tmp_path):
    """Pass@2 of 1/2 and of 1 in two seeds; how sure that is, the seeds say, so there is no interval over problems."""
    for seed, outcomes in ((1, ((1, 0), (0, 0))), (2, ((1, 0), (0, 1)))):
        run_dir = write_run(tmp_path / f"s{seed}", records([0.1, 0.1 * seed]), config("r", steps=2, seed=seed))
        rows = [sample(p, float(acc)) for p, accs in zip("pq", outcomes, strict=True) for acc in accs]
        write_samples(run_dir / "validation" / "2.jsonl", rows)
    cell = build_table(load_runs([tmp_path], []), []).rows[0].cells["AIME24"]
    assert cell.pass_at == {1: pytest.approx((0.25 + 0.5) / 2), 2: pytest.approx(0.75)}
    assert cell.interval is None


def test_benchmarks_are_told_apart_by_the_validation_files(tmp_path):
    """verl's samples do not name their data_source."""
    settings = config("a", steps=2)
    settings["data"]["val_files"] = [str(tmp_path / "x.parquet"), str(tmp_path / "y.parquet")]
    for name, source in (("x", "aime24"), ("y", "amc23")):
        problems = [Problem(source, f"problem {name}{i}", "1", "test") for i in range(3)]
        write_parquet(repeated_rows(problems, 2), tmp_path / f"{name}.parquet")
    run_dir = write_run(tmp_path / "a", records([0.1, 0.5]), settings)
    (run,) = load_runs([run_dir], [])
    rows = [sample(format_prompt(f"problem {name}{i}"), float(name == "x")) for name in "xy" for i in range(3)] * 2
    write_samples(run_dir / "validation" / "2.jsonl", rows)
    found = read_samples(run, 2, ["AIME24", "AMC23"])
    assert (found["AIME24"].correct, found["AIME24"].total) == ((2, 2, 2), (2, 2, 2))
    assert found["AMC23"].correct == (0, 0, 0)
    write_samples(run_dir / "validation" / "2.jsonl", [sample("unknown", 1.0)])
    assert read_samples(run, 2, ["AIME24", "AMC23"]) == {}
    assert "none of data.val_files" in run.notes[-1]


def test_a_problem_of_two_sets_is_told_of_neither(tmp_path):
    settings = config("a", steps=2)
    settings["data"]["val_files"] = [str(tmp_path / "x.parquet"), str(tmp_path / "y.parquet")]
    for name, source in (("x", "aime24"), ("y", "amc23")):
        problems = [Problem(source, problem, "1", "test") for problem in ("in both", f"in {name} alone")]
        write_parquet(repeated_rows(problems), tmp_path / f"{name}.parquet")
    lines = [(2, {"val-core/aime24/acc/mean@1": 0.5, "val-core/amc23/acc/mean@1": 0.5})]
    run_dir = write_run(tmp_path / "a", lines, settings)
    problems = ("in both", "in x alone", "in both", "in y alone")
    write_samples(run_dir / "validation" / "2.jsonl", [sample(format_prompt(one), 1.0) for one in problems])
    notes = []
    (row,) = build_table(load_runs([run_dir], notes), notes).rows
    assert [cell.interval for cell in row.cells.values()] == [None, None]
    (run,) = load_runs([run_dir], [])
    assert read_samples(run, 2, ["AIME24", "AMC23"]) == {}
    what = "samples of a problem that is of AIME24 and of AMC23; no interval, no pass@k"
    assert run.notes[-1] == f"{run_dir / 'validation/2.jsonl'}: {what}"
    assert isinstance(run.notes[-1], LeftOut)

    write_samples(run_dir / "validation" / "2.jsonl", [sample(format_prompt(one), 1.0) for one in problems[1::2]])
    assert {name: one.total for name, one in read_samples(run, 2, ["AIME24", "AMC23"]).items()} == {
        "AIME24": (1,),
        "AMC23": (1,),
    }


def table_with_samples(tmp_path, answers):
    """The table of one run for each entry: {problem: its answers}, or None where the run wrote no samples."""
    for seed, problems in enumerate(answers):
        run_dir = write_run(tmp_path / f"s{seed}", records([0.1, 0.5]), config("r", steps=2, seed=seed))
        if problems:
            rows = [sample(problem, acc) for problem, accs in problems.items() for acc in accs]
            write_samples(run_dir / "validation" / "2.jsonl", rows)
    notes = []
    return build_table(load_runs([tmp_path], notes), notes)


def test_pass_at_k_of_some_of_the_runs_is_said(tmp_path):
    two = {"p": [1.0, 0.0], "q": [0.0, 0.0]}
    said = "RPG-URKL: pass@k on AIME24 of 1 of 3 runs"
    table = table_with_samples(tmp_path / "some", [two, None, None])
    assert table.rows[0].cells["AIME24"].pass_at[2] == 0.5
    assert said in table.notes
    assert not any("pass@k" in note for note in table_with_samples(tmp_path / "all", [two, two]).notes)
    assert not any("pass@k" in note for note in table_with_samples(tmp_path / "none", [{"p": [1.0]}, None]).notes)


def test_unequal_numbers_of_answers_are_said(tmp_path):
    table = table_with_samples(tmp_path, [{"p": [1.0] * 4, "q": [0.0, 0.0]}])
    assert table.rows[0].cells["AIME24"].pass_at == {1: 0.5, 2: 0.5}  # each problem counts the same
    assert (
        "RPG-URKL: pass@k on AIME24 is the mean over problems, of which each counts the same; "
        "Last is the mean over their answers, 2 to 4 a problem"
    ) in table.notes


def test_no_samples_and_broken_samples(tmp_path):
    run_dir = write_run(tmp_path / "a", records([0.1, 0.5]), config("a"))
    (run,) = load_runs([run_dir], [])
    assert read_samples(run, 2, ["AIME24"]) == {}
    write_samples(run_dir / "validation" / "2.jsonl", [{"input": "x"}])
    with pytest.raises(ResultsError, match=r"2\.jsonl, line 1: not a validation sample"):
        read_samples(run, 2, ["AIME24"])
