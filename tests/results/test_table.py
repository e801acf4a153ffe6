"""Rows, cells, ranks, notes and formats of tables; the paper's tables as printed; escaped names."""

import csv
import io
import json
import re
from importlib import resources

import pytest

from rpg.cli import main
from rpg.diagnostics import printable
from rpg.results.formats import FORMATS, markdown
from rpg.results.messages import LeftOut, exit_code
from rpg.results.runs import load_runs
from rpg.results.table import Table, build_table, paper_table, ranked
from tests.builders.runs import config, records, write_run, write_samples

PRINTED = list(csv.DictReader(resources.files("rpg.results").joinpath("paper_tables.csv").read_text().splitlines()))


def table_of(tmp_path, runs, paper=None):
    for name, (lines, settings) in runs.items():
        write_run(tmp_path / name, lines, settings)
    return build_table(*load_runs([tmp_path]), paper)


def only_cell(table):
    (cell,) = table.records()
    return cell


@pytest.mark.parametrize("number", [3, 5, 6, 7, 8])
def test_paper_table_is_printed_as_printed(number, capsys):
    """All numbers with the paper's digits, in its order of rows and columns."""
    assert main(["table", "--paper", str(number)]) == 0
    header, _, *rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    expected: dict[str, list[str]] = {}
    for entry in (entry for entry in PRINTED if entry["table"] == str(number)):
        expected.setdefault(entry["method"], []).extend([entry["last"], entry["best"]])
    benchmarks = dict.fromkeys(entry["benchmark"] for entry in PRINTED if entry["table"] == str(number))
    assert re.findall(r"\| ([\w-]+) Last", header) == list(benchmarks)
    assert [re.sub("[◆◇] ", "", row.split("|")[1]).strip() for row in rows] == list(expected)
    assert [re.findall(r"\d\.\d{4}", row) for row in rows] == list(expected.values())


def test_marks_and_the_impossible_entry_of_paper_tables(capsys):
    """AMC23 Last: 0.8727 (RPG-REINFORCE-FKL), then 0.8711 (REINFORCE++-Baseline), read off the printed table 8."""
    text = markdown(paper_table(8))
    assert "| ◆ RPG-REINFORCE-FKL | **0.8727** |" in text
    assert "| REINFORCE++-Baseline | <u>0.8711</u> |" in text
    has_e11 = {number: any("E11" in note for note in paper_table(number).notes) for number in (3, 5, 6, 7, 8)}
    assert has_e11 == {3: True, 5: False, 6: False, 7: False, 8: False}
    assert main(["table", "--paper", "4"]) == 2
    assert "3, 5, 6, 7, 8" in capsys.readouterr().err


def test_last_best_and_early_stop(tmp_path):
    """NaN, which verl's logger writes as null, is neither last nor best."""
    lines = records([0.1, 0.3, 0.2, 0.1])
    lines[-1][1]["val-core/aime24/acc/mean@1"] = None
    table = table_of(tmp_path, {"a": (lines, config("a", steps=10))})
    cell = only_cell(table)
    assert [cell[key] for key in ("before", "last", "best", "last_se", "last_low")] == [0.1, 0.2, 0.3, None, None]
    assert "| RPG-URKL | 0.1000 | 0.2000 | 0.3000 |" in markdown(table).replace("◇ ", "")
    assert "a: at step 6 of 10, still running or stopped early" in table.notes
    assert LeftOut("a: val-core/aime24/acc/mean@1 is not finite at step 6; left out") in table.notes
    assert exit_code(table.notes) == 1


def test_seeds_are_averaged_and_the_same_seed_twice_is_noted(tmp_path):
    runs = {f"s{seed}": (records([0.1, last]), config("r", seed=seed)) for seed, last in ((1, 0.2), (2, 0.4), (3, 0.3))}
    table = table_of(tmp_path, runs)
    assert only_cell(table)["last"] == pytest.approx(0.3)
    # deviations -0.1, 0.1, 0: standard deviation sqrt(0.02 / 2) = 0.1, over sqrt(3)
    assert only_cell(table)["last_se"] == pytest.approx(0.1 / 3**0.5)
    assert "0.3000 ± 0.0577" in markdown(table)
    assert not any("same seed" in note for note in table.notes)
    assert any("same seed" in note for note in table_of(tmp_path, {"s4": runs["s1"]}).notes)


def test_other_settings_are_other_rows(tmp_path):
    runs = {name: (records([0.1, 0.2]), config(name, lr=lr)) for name, lr in (("a", 1e-6), ("b", 5e-7))}
    table = table_of(tmp_path, {**runs, "c": (records([0.1, 0.9]), config("c", loss="vanilla"))})
    assert list(table.rows) == ["GRPO", "RPG-URKL (lr 1e-06)", "RPG-URKL (lr 5e-07)"]
    assert list(table.cells["rank_last"]) == [1, 2, 2]  # ties share a place


def test_evaluations_are_rows_by_what_they_evaluate(tmp_path):
    """Two seeds' checkpoints are one row; the untrained model has no learning rate, whatever its script says."""
    runs = {}
    for name, seed, accuracy, lr, mode, path in (
        ("before", 1, 0.1, 1e-6, "disable", None),
        ("s1", 1, 0.4, 1e-5, "resume_path", "/runs/seed_1/global_step_20"),
        ("s2", 2, 0.6, 1e-5, "resume_path", "/runs/seed_2/global_step_20"),
    ):
        made = config(name, seed=seed, lr=lr)
        made["trainer"].update(val_only=True, resume_mode=mode, resume_from_path=path)
        runs[name] = (records([accuracy]), made)
    assert dict(table_of(tmp_path, runs).cells[["method", "last"]].to_numpy()) == {
        "RPG-URKL (checkpoint global_step_20)": pytest.approx(0.5),
        "RPG-URKL (checkpoint untrained)": pytest.approx(0.1),
    }
    runs["s2"][1]["actor_rollout_ref"]["actor"]["optim"]["lr"] = 1e-4
    assert [*table_of(tmp_path, runs).rows] == [
        "RPG-URKL (lr 0.0001, checkpoint global_step_20)",
        "RPG-URKL (lr 1e-05, checkpoint global_step_20)",
        "RPG-URKL (lr unset, checkpoint untrained)",
    ]


def test_missing_benchmarks_are_dashes(tmp_path):
    runs = {
        "a": (records([0.1, 0.2]), config("a")),
        "b": (records([0.1, 0.2], benchmark="amc23"), config("b", loss="rpg_rf_urkl_clip_ppo")),
        "c": ([(1, {"actor/entropy": 1.0})], config("c", loss="vanilla")),
    }
    table = table_of(tmp_path, runs)
    assert table.benchmarks == ["AIME24", "AMC23"]
    assert "GRPO" in table.rows
    assert "| ◇ RPG-URKL | 0.1000 | 0.2000 | 0.2000 | – | – | – |" in markdown(table)


def test_beside_the_paper(tmp_path):
    table = table_of(tmp_path / "math", {"a": (records([0.1, 0.5]), config("a"))}, paper_table(3))
    lines = markdown(table).splitlines()
    assert "| &emsp;paper | – | 0.4542 | 0.5260 |" in lines
    assert "| &emsp;difference | – | +0.0458 | -0.0260 |" in lines  # 0.5 - 0.4542, 0.5 - 0.5260
    runs = {"a": (records([0.1, 0.5], benchmark="toy_sum"), config("a"))}
    table = table_of(tmp_path / "toy", runs, paper_table(8))
    assert any(note.startswith("nothing to compare") for note in table.notes)
    assert table.benchmarks == ["toy sums"]  # no columns of dashes
    assert only_cell(table)["paper_last"] is None


def made(*cells, notes=()):
    """Return a table of rows without runs."""
    lines = [{"benchmark": "AIME24", "kind": "", "is_printed": True, **cell} for cell in cells]
    return Table("t", {cell["method"]: [] for cell in cells}, ranked(lines), list(notes))


ROW = {"method": "RPG-URKL", "last": 0.25, "best": 0.5}


def test_formats():
    first = {**ROW, "last_low": 0.1, "last_high": 0.4, "pass@2": 0.4}
    table = made(first, {"method": "a_b & 50%", "last": 0.5, "best": 0.25})
    read = csv.DictReader(io.StringIO(FORMATS["csv"](table)))
    shown = [[row[column] for column in ("method", "last", "rank_best", "pass@2")] for row in read]
    assert shown == [["RPG-URKL", "0.25", "1", "0.4"], ["a_b & 50%", "0.5", "2", ""]]
    assert json.loads(FORMATS["json"](table))["rows"][0]["last_low"] == 0.1
    assert "| ◇ RPG-URKL | AIME24 | 0.4000 |" in markdown(table)


@pytest.mark.parametrize("benchmarks", [1, 5])
def test_a_terminal_folds_labels_and_crops_no_number(monkeypatch, benchmarks):
    monkeypatch.setenv("COLUMNS", "80")
    label = "RPG-REINFORCE-URKL (kl_coef 0.1, kl_scope 'response', clip_ratio_high 0.28)"
    row = {**ROW, "method": label, "last_se": 0.0123}
    cells = [{**row, "benchmark": f"AIME{24 + number}"} for number in range(benchmarks)]
    text = FORMATS["terminal"](made(*cells, notes=["a note of more than eighty characters " * 3]))
    words = text.split()
    assert [word for word in words if word in label.split()] == label.split()
    numbers = ["0.2500", "0.0123", "0.5000"]
    assert [word for word in words if word in numbers] == numbers * benchmarks
    assert max(map(len, text.splitlines())) <= 80


HOSTILE = r"a|b <script>x</script> $\frac$ [l](x) & 50%" + "\nnext\u2028line\x1b[0m"


def test_no_format_takes_a_name_for_markup():
    table = made({"method": HOSTILE, "last": 0.5, "best": 0.5}, notes=[HOSTILE])
    text = FORMATS["md"](table)
    assert r"a&#124;b &lt;script>x&lt;/script> \$\frac\$ [l]&#40;x) &amp; 50%\nnext\u2028line\x1b[0m" in text
    assert json.loads(FORMATS["json"](table))["rows"][0]["method"] == HOSTILE
    assert printable("a\nb\u2028c\x85\ud800ü") == r"a\nb\u2028c\x85\ud800ü"


def test_bold_only_where_the_lead_exceeds_the_noise(tmp_path):
    """GRPO 0.8 against 0.5: unknown for one run each without samples; clear for three close seeds each."""
    for seed in (1, 2, 3):
        for loss, accuracy in (("vanilla", 0.8), ("rpg_urkl", 0.5)):
            folder = tmp_path / str(seed) / loss
            write_run(folder, records([accuracy + 0.01 * seed]), config(loss, loss=loss, seed=seed))
    assert "**0." not in markdown(build_table(*load_runs([tmp_path / "1"])))
    table = build_table(*load_runs([tmp_path]))
    assert "**0.8200**" in markdown(table)
    assert list(table.cells["clear_last"]) == [True, False]  # nothing is below the last one


def test_the_lead_of_two_seeds_is_measured_by_students_distribution(tmp_path):
    """0.81 and 0.77, each +- 0.01: a lead of 2.8 errors, where 2 degrees of freedom want 4.3."""
    for seed, higher in ((1, 0.80), (2, 0.82)):
        write_run(tmp_path / f"a{seed}", records([higher]), config("a", loss="vanilla", seed=seed))
        write_run(tmp_path / f"b{seed}", records([higher - 0.04]), config("b", loss="rpg_urkl", seed=seed))
    assert "**0." not in markdown(build_table(*load_runs([tmp_path])))


def test_seeds_with_files_of_other_content_are_said(tmp_path):
    """The reward changed between two seeds: same path, other hash."""
    for seed, digest in ((1, "a" * 64), (2, "b" * 64)):
        run = write_run(tmp_path / str(seed), records([0.5]), config("a", seed=seed))
        (run / "environment.json").write_text(json.dumps({"contents": {"reward": digest}}))
    [note] = [note for note in build_table(*load_runs([tmp_path])).notes if "differ in" in note]
    assert note == "RPG-URKL: its runs differ in reward, not in their seeds alone"


def test_another_setup_than_the_papers_is_said(tmp_path):
    settings = config("a")
    settings["data"]["max_response_length"] = 8192
    write_run(tmp_path, [(0, {"val-core/aime24/acc/mean@32": 0.5})], settings)
    texts = build_table(*load_runs([tmp_path]), paper=paper_table(8)).notes
    assert "the paper's data.max_response_length is 2048, here it is 8192" in texts


def test_runs_of_different_lengths_have_no_common_rank(tmp_path):
    """Two steps against four: the longer run's 0.9 is not bold; a run without a method of ours has its own name."""
    own = config("own", loss="my_loss")
    runs = {"short": (records([0.1, 0.2]), config("short")), "long": (records([0.1, 0.2, 0.9]), own)}
    table = table_of(tmp_path, runs)
    assert list(table.rows) == ["RPG-URKL", "own"]
    assert table.cells["rank_last"].isna().all()
    assert any("step of Last (2, 4)" in note for note in table.notes)


def test_failed_rewards_are_said_as_the_reason(tmp_path, monkeypatch, capsys):
    """Two problems, two answers each, one right; the reward of one failed: verl logs 1/4, the samples have 1/3."""
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "checkpoints" / "a", [(0, {"val-core/aime24/acc/mean@2": 0.25})], config("a"))
    answers = (("p", 1), ("p", 0), ("q", 0))
    write_samples(run, 0, [{"input": name, "gts": "1", "output": "o", "acc": acc} for name, acc in answers])
    failed = {"step": 0, "data_source": "aime24", "why": "ValueError: no number"}
    (run / "left_out.jsonl").write_text(json.dumps(failed) + "\n")
    assert main(["table"]) == 1  # without an argument: ./checkpoints
    shown = capsys.readouterr().out
    assert "samples of another run, or not all of them, as of failed rewards; left out" in shown
    assert "a: failed rewards: 1" in shown
    assert "ValueError: no number" in shown
    assert main(["compare", str(run), str(run)]) == 1
    assert "failed rewards: 1" in capsys.readouterr().err
    assert main(["watch", "--once"]) == 0
    assert "failed rewards: 1" in capsys.readouterr().out


def test_notes_are_few_and_below_the_table(monkeypatch):
    """In a terminal the table stays on the screen; what was left out comes first."""
    monkeypatch.setenv("COLUMNS", "80")
    table = made(ROW, notes=[*(f"remark {number}" for number in range(9)), LeftOut("cut off")])
    text = FORMATS["terminal"](table)
    assert len(text.splitlines()) <= 24
    assert text.index("0.2500") < text.index("cut off") < text.index("remark 0")
    assert "5 more notes: --format md" in text
    assert "remark 8" in FORMATS["md"](table)
    assert len(json.loads(FORMATS["json"](table))["notes"]) == 10


def test_equal_notes_on_several_runs_are_one(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, records([0.1, 0.2]))
    notes = build_table(*load_runs([tmp_path])).notes
    assert [note for note in notes if "no config.yaml" in note] == [
        "a, b: no config.yaml: its method and planned steps are unknown"
    ]


def test_long_names_fit_a_terminal_and_are_whole_in_markdown(monkeypatch):
    """What is cut off ends in an ellipsis; no word is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    benchmark, label = "MATH/our-lab_competition-" + "x" * 65 + "_annotators", f"{'sweep-' * 26}1"
    table = made({**ROW, "method": label}, {**ROW, "method": label, "benchmark": benchmark})
    text = FORMATS["terminal"](table)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("…") == 2
    assert label in FORMATS["md"](table)
    assert benchmark in FORMATS["md"](table)


def test_without_runs_the_message_names_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in ("table", "plot", "watch"):
        assert main([command]) == 2
        assert f"no checkpoints/ in {tmp_path}; give a run's directory" in capsys.readouterr().err
