"""Reading of damaged, resumed and duplicate logs."""

import json
import math
import os
from pathlib import Path

import pytest

from rpg.results.messages import ResultsError, exit_code
from rpg.results.runs import load as read_run
from rpg.results.runs import load_runs
from tests.builders.runs import config, records, write_run

LINES = records([0.1, 0.3, 0.25])  # validations at steps 0, 2, 4


def load(*paths):
    return load_runs(paths)


def test_a_cut_off_last_line_is_left_out_and_noted(tmp_path):
    """Blank lines do not count."""
    file = write_run(tmp_path / "a", LINES) / "metrics.jsonl"
    file.write_text(file.read_text().replace("\n", "\n \n", 1)[:-20])
    (run,), notes = load(tmp_path / "a")
    assert run.last_step == 3
    assert "line 6 of metrics.jsonl is cut off" in run.notes
    assert exit_code([*notes, *run.notes]) == 0  # every killed run leaves it


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": 2, "data": {"a\xff": 1}}',
        b"9" * 5000,
        b'{"step": 9%b, "data": {}}' % (b"9" * 20),
        b'{"step": 2, "data": {"a": 9%b}}' % (b"9" * 400),
        b"{",
        *(b'{"step": %b, "data": {}}' % step for step in (b'"x"', b"1.5", b"-1", b"true")),
        b"null",
        b'{"step": 2, "data": null}',
        b'{"data": {}}',
    ],
)
def test_a_broken_line_is_named_with_the_remedy(tmp_path, line):
    file = write_run(tmp_path / "a", LINES) / "metrics.jsonl"
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(ResultsError, match=r"metrics.jsonl, line 3: .*; correct or remove the line"):
        load(tmp_path / "a")


def test_of_a_resumed_run_the_later_part_wins_and_the_abandoned_branch_goes(tmp_path):
    accuracy = "val-core/aime24/acc/mean@1"
    lines = [(1, {"x": 1.0}), (2, {"x": 2.0, accuracy: 0.617}), (3, {"x": 3.0, "z": 1.0}),
             (2, {"x": 9.0, "y": 1.0, accuracy: 0.586})]  # fmt: skip
    run = read_run(write_run(tmp_path, lines, config("a", steps=2)))
    assert {name: run.frame[name].dropna().to_dict() for name in "xy"} == {"x": {1: 1.0, 2: 9.0}, "y": {2: 1.0}}
    assert run.notes == [
        "resumed at step 2: steps 3 to 3 of the earlier part are replaced",
        f"validated twice at step 2: {accuracy} is 0.5860, was 0.6170",
    ]


def test_values_that_are_no_finite_numbers(tmp_path):
    """NaN and infinities, or null for them, are kept as inf, which is not shown; other values are skipped."""
    values = {"x": math.nan, "y": 1.0, "z": -math.inf, "text": "t", "null": None, "b": True}
    run = read_run(write_run(tmp_path / "a", [(1, values)]))
    assert run.frame.loc[1].to_dict() == {"x": math.inf, "y": 1.0, "z": math.inf, "null": math.inf}
    assert list(read_run(run.directory, lambda name: name == "y").frame) == ["y"]
    assert (len(run.series("x")), len(run.series("y")), len(run.series("absent"))) == (0, 1, 0)


def test_runs_of_one_name_are_told_apart_and_one_run_counts_once(tmp_path):
    for folder, seed in (("a", 1), ("b", 2)):
        write_run(tmp_path / folder, records([0.1, 0.2 + seed / 10]), config("same", seed=seed))
    runs, _ = load(tmp_path, tmp_path / "a", tmp_path / "a" / "metrics.jsonl")
    assert len({run.name for run in runs}) == len(runs) == 2


def test_linked_runs_are_found_and_a_circle_ends(tmp_path):
    write_run(tmp_path / "elsewhere/c", records([0.1]), config("c"))
    write_run(tmp_path / "runs/a", records([0.1]), config("a"))
    (tmp_path / "runs/c").symlink_to(tmp_path / "elsewhere/c")
    (tmp_path / "runs/again").symlink_to(tmp_path / "runs")
    runs, _ = load(tmp_path / "runs")
    assert sorted(run.name for run in runs) == ["a", "c"]


def test_two_spellings_of_one_benchmark_are_refused(tmp_path):
    write_run(tmp_path / "a", [(0, {"val-core/aime24/acc/mean@1": 0.1, "val-core/AIME24/acc/mean@1": 0.2})])
    with pytest.raises(ResultsError, match="second value of AIME24"):
        load(tmp_path / "a")


def test_changed_settings_of_a_resumption_are_noted(tmp_path):
    run_dir = write_run(tmp_path / "a", LINES)
    starts = [{"after_step": 0, "changed": {}}, {"after_step": 2, "changed": {"data.seed": [1, 2]}}]
    (run_dir / "environment.json").write_text(json.dumps({"starts": starts}))
    (run,), _ = load(run_dir)
    assert "after step 2: data.seed 1 -> 2" in run.notes


@pytest.mark.parametrize("content", ["", "- a\n", "a: 2024-99-99", "\x00\xff"])
def test_a_run_with_an_unreadable_configuration_is_left_out(tmp_path, content):
    run_dir = write_run(tmp_path / "rpg_cpu_urkl1e-4", LINES)
    write_run(tmp_path / "good", LINES)
    (run_dir / "config.yaml").write_text(content, encoding="latin-1")
    (run,), notes = load(tmp_path)
    assert run.name == "good"
    assert exit_code(notes) == 1


def test_a_directory_whose_name_is_not_utf8_is_a_run(tmp_path):
    run = write_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xfc")), LINES)
    (found,), _ = load(run)
    assert found.name == "gr\ufffd"
