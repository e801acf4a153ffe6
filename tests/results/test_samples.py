"""pass@k against enumeration, intervals against known cases, and reading of samples."""

import itertools

import numpy as np
import pandas as pd
import pytest

from rpg.results.messages import exit_code
from rpg.results.runs import load_runs
from rpg.results.samples import interval, pass_at_k, read_samples
from rpg.results.table import build_table
from tests.builders.runs import config, records, write_run, write_samples


def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one():
    for n, c, k in itertools.product(range(1, 7), repeat=3):
        if max(c, k) <= n:
            subsets = [any(subset) for subset in itertools.combinations([True] * c + [False] * (n - c), k)]
            assert pass_at_k(n, c, k) == pytest.approx(sum(subsets) / len(subsets)), (n, c, k)


def problems(correct, total):
    return pd.DataFrame({"sum": correct, "size": total})


def test_interval():
    assert interval(problems([2, 2, 2], [2, 2, 2])) == (1.0, 1.0)
    low, high = interval(problems([1] * 50 + [0] * 50, [1] * 100))
    # 0.5 +- 1.96 sqrt(0.25 / 100) = 0.5 +- 0.098
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)


def test_interval_is_of_the_mean_over_samples():
    """One problem with 8 correct answers and two with 4 wrong ones: Last is 8/16, the mean over problems 1/3."""
    three = problems([8, 0, 0], [8, 4, 4])
    draws = [[(8, 8), (0, 4), (0, 4)][i] for i in np.random.default_rng(0).integers(3, size=(2000, 3)).ravel()]
    right, all_of_them = np.array(draws).reshape(2000, 3, 2).sum(axis=1).T
    assert interval(three, 0.2) == pytest.approx(tuple(np.quantile(right / all_of_them, [0.4, 0.6])))
    assert interval(three, 0.0) == (0.5, 0.5)


def sample(problem, acc, gts="1"):
    return {"input": f"user\nSolve.\n\n{problem}\n\nassistant\n", "output": "o", "gts": gts, "acc": acc}


def test_intervals_and_pass_at_k_in_the_table(tmp_path):
    """One run: both problems have mean 1/2. For two seeds pass@2 is 1/2 and 1, without intervals over problems."""
    (cell,) = table_with_samples(tmp_path / "one", [{"p": [1.0, 0.0], "q": [1.0, 0.0]}]).records()
    assert (cell["last_low"], cell["last_high"]) == (0.5, 0.5)
    assert (cell["pass@1"], cell["pass@2"]) == pytest.approx((0.5, 1.0))
    answers = [{"p": [1.0, 0.0], "q": [0.0, 0.0]}, {"p": [1.0, 0.0], "q": [0.0, 1.0]}]
    (cell,) = table_with_samples(tmp_path / "two", answers).records()
    assert (cell["pass@1"], cell["pass@2"]) == pytest.approx(((0.25 + 0.5) / 2, 0.75))
    assert cell["last_low"] is None


def test_samples_of_two_sets_are_told_apart_by_their_data_source(tmp_path):
    """Which our reward worker writes; those of an older version are left out with a note."""
    lines = [(2, {"val-core/aime24/acc/mean@2": 0.5, "val-core/amc23/acc/mean@2": 1.0})]
    run_dir = write_run(tmp_path, lines, config("a", steps=2))
    samples = [sample("p", 1.0) | {"data_source": source} for source in ("aime24", "amc23") for _ in range(2)]
    samples[0]["acc"] = 0.0
    write_samples(run_dir, 2, samples)
    (run,), _ = load_runs([run_dir])
    found, _ = read_samples(run, 2)
    assert found.groupby("benchmark")["acc"].mean().to_dict() == {"AIME24": 0.5, "AMC23": 1.0}
    write_samples(run_dir, 2, [sample("p", 1.0)])
    table = build_table([run])
    assert [cell["last_low"] for cell in table.records()] == [None, None]
    assert any("data_source" in note for note in table.notes)
    assert exit_code(table.notes) == 1


def table_with_samples(tmp_path, answers):
    """Return the table of one run per entry {problem: answers}."""
    for seed, problems in enumerate(answers):
        rows = [sample(problem, acc) for problem, accs in problems.items() for acc in accs]
        last = sum(row["acc"] for row in rows) / len(rows)
        run_dir = write_run(tmp_path / f"s{seed}", records([0.1, last]), config("r", steps=2, seed=seed))
        write_samples(run_dir, 2, rows)
    return build_table(*load_runs([tmp_path]))


@pytest.mark.parametrize("end", ["", "{"])
def test_broken_samples_leave_the_interval_out(tmp_path, end):
    """Also an incomplete last line, because samples are then missing. U+2028 and U+0085 do not end a line."""
    run_dir = write_run(tmp_path / "a", records([0.1, 1.0]), config("a", steps=2))
    (run,), _ = load_runs([run_dir])
    assert read_samples(run, 2)[0].empty
    write_samples(run_dir, 2, 2 * [sample("p", 1.0) | {"output": "First\u2028then\x85"}])
    with open(run_dir / "validation" / "2.jsonl", "a") as file:
        file.write(end)
    table = build_table([run])
    assert table.records()[0]["last_low"] == (None if end else 1.0)
    assert any("2.jsonl, line 3: " in note for note in table.notes) == bool(end)


def test_accuracies_of_a_custom_reward_between_right_and_wrong(tmp_path):
    """The interval is around the mean that the table shows, 0.5 of both problems; pass@k wants right or wrong."""
    (cell,) = table_with_samples(tmp_path, [{"p": [0.5, 0.5], "q": [0.25, 0.75]}]).records()
    assert (cell["last"], cell["last_low"], cell["last_high"]) == (0.5, 0.5, 0.5)
    assert not [name for name in cell if name.startswith("pass@")]
