"""Rows, cells, ranks, notes and formats of tables; the paper's tables as printed."""

import itertools
import re
from importlib import resources

import pandas as pd
import pytest

from rpg.cli import main
from rpg.dotted import put
from rpg.results.formats import markdown
from rpg.results.runs import load_runs
from rpg.results.table import build_table
from tests.builders.runs import config, records, write_run, write_samples

PRINTED = pd.read_csv(str(resources.files("rpg.results") / "paper_tables.csv"), dtype=str)


def table_of(tmp_path, runs, paper=None):
    for name, (lines, settings) in runs.items():
        write_run(tmp_path / name, lines, settings)
    return build_table(load_runs([tmp_path]), paper)


@pytest.mark.parametrize("number", [3, 5, 6, 7, 8])
def test_paper_table_is_printed_as_printed(number, capsys):
    """All numbers with the paper's digits, in its order of rows and columns."""
    assert main(["table", "--paper", str(number)]) == 0
    header, _, *rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    printed = PRINTED[PRINTED.table == str(number)]
    assert re.findall(r"\| ([\w-]+) Last", header) == list(printed.benchmark.unique())
    assert [row.split("|")[1].strip() for row in rows] == list(printed.method.unique())
    for row, (_, entries) in zip(rows, printed.groupby("method", sort=False), strict=True):
        assert re.findall(r"\d\.\d{4}", row) == entries[["last", "best"]].to_numpy().ravel().tolist()


def test_before_last_best_and_early_stop(tmp_path):
    """NaN, which verl's logger writes as null, is neither last nor best."""
    lines = records([0.1, 0.3, 0.2, 0.1])
    lines[-1][1]["val-core/aime24/acc/mean@1"] = None
    table = table_of(tmp_path, {"a": (lines, config("a", steps=10))})
    cell = table.cells.squeeze(axis=0)  # the only one
    assert [cell[key] for key in ("before", "last", "best")] == [0.1, 0.2, 0.3]
    assert "| RPG-URKL | 0.1000 | 0.2000 | 0.3000 |" in markdown(table)
    assert table.notes == [f"{tmp_path}/a: at step 6 of 10, still running or stopped early"]


def test_evaluations_are_rows_by_what_they_evaluate(tmp_path):
    """Two seeds' checkpoints are one row."""
    runs = {}
    for seed, accuracy in ((0, 0.1), (1, 0.4), (2, 0.6)):
        made = config("r", seed=seed)
        made["trainer"].update(val_only=True, resume_from_path=f"/runs/{seed}/global_step_20" if seed else None)
        runs[str(seed)] = (records([accuracy]), made)
    assert dict(table_of(tmp_path, runs).cells[["method", "last"]].to_numpy()) == {
        "RPG-URKL (checkpoint global_step_20)": pytest.approx(0.5),
        "RPG-URKL (checkpoint untrained)": pytest.approx(0.1),
    }


@pytest.mark.parametrize(
    ("keys", "values", "label"),
    [
        (["a.filters.enable", "b.c.penalty.enable"], (1, 2), "GRPO (filters.enable 1, penalty.enable 2)"),
        (["a.n", "a.val_kwargs.n"], (1, 2), "GRPO (a.n 1, val_kwargs.n 2)"),
        (["n", "a.n"], (1, "1"), "GRPO (a.n 1, n 1)"),  # which look alike
    ],
)
def test_no_run_is_lost_where_settings_share_a_last_name(tmp_path, keys, values, label):
    runs = {str(number): (records([0.1 * number]), config("g", loss="vanilla")) for number in range(4)}
    for (_, settings), (one, other) in zip(runs.values(), itertools.product(values, repeat=2), strict=True):
        for key, value in zip([*keys, f"copy.{keys[1]}"], (one, other, other), strict=True):  # copies are not named
            put(settings, key, value)
    found = dict(table_of(tmp_path, runs).cells[["method", "last"]].to_numpy())
    assert label in found
    assert sorted(found.values()) == pytest.approx([0, 0.1, 0.2, 0.3])


def test_rows_of_many_settings_are_named_by_a_run_and_gym_sets_judge_themselves(tmp_path):
    runs = {f"{n}-{seed}": (records([0.1], "reasoning_gym/x"), config("a", seed=seed) | {"x": dict.fromkeys("abcd", n)})
            for n in (1, 2) for seed in (1, 2)}  # fmt: skip
    table = table_of(tmp_path, runs)
    assert list(table.rows) == [f"RPG-URKL ({tmp_path}/{n}-1 and 1 more)" for n in (1, 2)]
    assert table.title == "Mean@k on validation, judge reasoning_gym"


def test_seeds_of_an_own_loss_are_one_row_and_runs_without_config_are_not(tmp_path):
    runs: dict = {f"own{n}": (records([0.1 * n]), config("r", loss="mine", seed=n)) for n in (1, 2, 3)}
    runs |= {name: (records([0.5]), None) for name in ("plain1", "plain2")}
    cells = table_of(tmp_path, runs).cells
    found = dict(zip(cells["method"].str.removeprefix(f"{tmp_path}/"), cells["last"], strict=True))
    assert found == {
        "own1 and 2 more (judge release)": pytest.approx(0.2),
        "plain1 (judge not recorded)": 0.5,
        "plain2 (judge not recorded)": 0.5,
    }


def test_beside_the_paper(tmp_path):
    table = table_of(tmp_path / "math", {"a": (records([0.1, 0.5]), config("a"))}, 3)
    lines = markdown(table).splitlines()
    assert lines[0].endswith("; Paper, table 3: Qwen3-4B, 8K context, judge release**")
    assert "| RPG-URKL (paper) | – | 0.4542 | 0.5260 |" in lines
    table = table_of(tmp_path / "toy", {"a": (records([0.1, 0.5], benchmark="toy_sum"), config("a"))}, 8)
    assert table.benchmarks == ["toy sums"]  # no columns of dashes
    assert list(table.rows) == ["RPG-URKL"]


def test_a_narrow_terminal_folds_texts_beside_their_own_numbers(tmp_path, monkeypatch, capsys):
    for number, benchmark in enumerate(("aime24", "toy_sum", "amc23")):
        write_run(tmp_path / benchmark, records([0.1 * number], benchmark), config("a"))
    monkeypatch.setenv("COLUMNS", "30")
    assert main(["table", str(tmp_path), "--format", "terminal"]) == 0
    shown = capsys.readouterr().out
    numbers = dict(re.findall(r"(AIME|AMC2|toy|sums) *(?:0.(\d))?", shown))
    assert numbers == {"AIME": "0", "AMC2": "2", "toy": "1", "sums": ""}


def with_samples(tmp_path, answers):
    """Return the cell of one run per entry {problem: accuracies of its answers}."""
    for seed, problems in enumerate(answers):
        pairs = [(name, acc) for name, accs in problems.items() for acc in accs]
        rows = [{"input": name, "output": "o", "gts": "1", "acc": acc} for name, acc in pairs]
        last = sum(row["acc"] for row in rows) / len(rows)
        run_dir = write_run(tmp_path / f"s{seed}", records([0.1, last]), config("r", steps=2, seed=seed))
        write_samples(run_dir, 2, rows)
    return build_table(load_runs([tmp_path])).cells.squeeze(axis=0)


def test_intervals_and_pass_at_k(tmp_path):
    """One run: the problems' means 1/2 and 1 deviate by 0.3536, over sqrt(2) 1/4. Two runs: of their seeds alone."""
    cell = with_samples(tmp_path / "one", [{"p": [1.0, 0.0], "q": [1.0, 1.0]}])
    assert (cell["last_se"], cell["problems"]) == (pytest.approx(0.25), 2)
    assert (cell["pass@1"], cell["pass@2"]) == pytest.approx((0.75, 1.0))
    answers = [{"p": [1.0, 0.0], "q": [0.0, 0.0]}, {"p": [1.0, 0.0], "q": [0.0, 1.0]}]
    cell = with_samples(tmp_path / "two", answers)
    assert (cell["pass@1"], cell["pass@2"]) == pytest.approx(((0.25 + 0.5) / 2, 0.75))
    assert cell["last_se"] == pytest.approx(0.125)


def test_bold_only_where_the_lead_exceeds_the_noise(tmp_path):
    """GRPO 0.8 against 0.5: unknown for one run each without samples; clear for three close seeds each."""
    for seed in (1, 2, 3):
        for loss, accuracy in (("vanilla", 0.8), ("rpg_urkl", 0.5)):
            folder = tmp_path / str(seed) / loss
            write_run(folder, records([accuracy + 0.01 * seed]), config(loss, loss=loss, seed=seed))
    assert "**0." not in markdown(build_table(load_runs([tmp_path / "1"])))
    table = build_table(load_runs([tmp_path]))
    # deviations -0.01, 0, 0.01: standard deviation 0.01, over sqrt(3)
    assert "**0.8200** ± 0.0058" in markdown(table)


def test_runs_of_one_seed_and_of_two_models_are_named(tmp_path):
    made = [config("a"), config("a"), config("b", loss="vanilla")]
    for run, model in zip(made, ("/models/1", "/models/1", "/models/2"), strict=True):
        run["actor_rollout_ref"].setdefault("model", {})["path"] = model
    table = table_of(tmp_path, {str(number): (records([0.1, 0.2]), run) for number, run in enumerate(made)})
    assert sum("runs of one seed are averaged" in note for note in table.notes) == 1
    assert "rows differ in actor_rollout_ref.model.path" in table.notes


def test_what_a_table_leaves_out_or_does_not_know_is_said(tmp_path):
    """A run that failed before its first step, one that never validated, one of plain verl."""
    known, trains = (config("r", loss) | {"data": {"train_files": ["/a"]}} for loss in ("rpg_urkl", "vanilla"))
    failed = write_run(tmp_path / "failed", [], known)
    (failed / "metrics.jsonl").unlink()
    (failed / "environment.json").write_text("{}")
    runs = {"known": (records([0.1, 0.2]), known), "plain": (records([0.1, 0.3]), None),
            "trains": ([(1, {"critic/score/mean": 1.0})], trains)}  # fmt: skip
    notes = table_of(tmp_path, runs).notes
    assert f"RPG-URKL (judge release): AIME24 without {failed}" in notes
    assert f"{failed}: at step 0 of 4, still running or stopped early" in notes
    assert "GRPO (judge release): no accuracy in its log" in notes
    assert notes[-1] == "rows are ranked only among those with equal judge"  # and differ in no known setting


def three_seeds(runs):
    """Return three seeds of each run; their accuracies differ by a thousandth, so that leads are clear."""
    return {
        f"{name}{seed}": ([(step, {key: value + seed / 1000 for key, value in data.items()}) for step, data in lines],
                          settings | {"data": {"seed": seed}})
        for name, (lines, settings) in runs.items() for seed in (1, 2, 3)
    }  # fmt: skip


def test_rows_that_are_not_measured_alike_have_no_common_rank(tmp_path):
    """Other judges are named in the rows; two steps do not compare with four."""
    runs = {}
    for name, judge in (("urkl", "release"), ("ufkl", "verified"), ("rkl", "verified")):
        made = config(name, f"rpg_{name}")
        made["reward"] = {"custom_reward_function": {"path": "pkg://rpg.rewards", "reward_kwargs": {"judge": judge}}}
        runs[name] = (records([0.1, 0.2, 0.5 if name == "rkl" else 0.3]), made)
    table = table_of(tmp_path / "judges", three_seeds(runs))
    assert dict(table.cells[["method", "leads_last"]].to_numpy()) == {
        "RPG-RKL (judge verified)": True,
        "RPG-UFKL (judge verified)": False,
        "RPG-URKL (judge release)": False,  # alone among its judge's
    }
    assert table.notes == ["rows are ranked only among those with equal judge"]
    grpo = config("g", "vanilla")
    runs = {"short": (records([0.1, 0.2]), config("s", steps=2)), "long": (records([0.1, 0.9, 0.9]), grpo)}
    table = table_of(tmp_path / "steps", three_seeds(runs))
    assert not table.cells["leads_last"].any()
    ranked_by = ["step of Last", "number of validations (Best)"]
    assert table.notes == [f"rows are ranked only among those with equal {', '.join(ranked_by)}"]
    often, once = [(n, {"val-core/aime24/acc/mean@32": 0.5 + n / 100}) for n in range(5)], records([0.1, 0.2, 0.3])
    runs = {"often": (often, config("o")), "once": (once, grpo)}
    table = table_of(tmp_path / "often", three_seeds(runs))
    assert (list(table.cells["leads_last"]), table.cells["leads_best"].any()) == ([False, True], False)
    assert table.notes == [f"rows are ranked only among those with equal {ranked_by[1]}"]
    runs = {f"{loss}{n}": (records([value + n / 1000] * n), config("u", loss, seed=n))
            for loss, value in (("vanilla", 0.2), ("rpg_urkl", 0.8)) for n in (2, 3)}  # fmt: skip
    table = table_of(tmp_path / "uneven", runs)
    assert set(table.cells["step"]) == {"2 to 4"}
    assert not table.cells["leads_last"].any()
    assert any(note.endswith("at different steps, so not ranked") for note in table.notes)
