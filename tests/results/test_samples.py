"""pass@k against enumeration, the interval against known cases, samples on disk against what was written."""

import itertools
import json

import pytest
from synthetic import config, records, write_run

from rpg.data.schema import Problem, repeated_rows, write_parquet
from rpg.results.records import ResultsError
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
    from rpg.data.template import format_prompt

    rows = [sample(format_prompt(f"problem {name}{i}"), float(name == "x")) for name in "xy" for i in range(3)] * 2
    write_samples(run_dir / "validation" / "2.jsonl", rows)
    found = read_samples(run, 2, ["AIME24", "AMC23"])
    assert (found["AIME24"].correct, found["AIME24"].total) == ((2, 2, 2), (2, 2, 2))
    assert found["AMC23"].correct == (0, 0, 0)
    write_samples(run_dir / "validation" / "2.jsonl", [sample("unknown", 1.0)])
    assert read_samples(run, 2, ["AIME24", "AMC23"]) == {}
    assert "none of data.val_files" in run.notes[-1]


def test_no_samples_and_broken_samples(tmp_path):
    run_dir = write_run(tmp_path / "a", records([0.1, 0.5]), config("a"))
    (run,) = load_runs([run_dir], [])
    assert read_samples(run, 2, ["AIME24"]) == {}
    write_samples(run_dir / "validation" / "2.jsonl", [{"input": "x"}])
    with pytest.raises(ResultsError, match=r"2\.jsonl, line 1: not a validation sample"):
        read_samples(run, 2, ["AIME24"])
