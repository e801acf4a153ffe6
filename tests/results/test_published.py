"""docs/results: its tables are made again from the committed files, and its pages say what the tables say."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rpg import cli

ROOT = Path(__file__).resolve().parents[2]
RESULTS, STUDIES = ROOT / "docs/results", ROOT / "scripts/studies"
REPORTS = (
    ("study_report.py", "docs/results/study", "study/methods.md"),
    ("off_policy_report.py", "docs/results/off_policy", "off_policy/runs.md"),
    ("stability_report.py", "docs/results/stability", "stability/runs.md"),
    ("factors_report.py", "docs/results/factors", "factors/runs.md"),
    ("dynamics_report.py", "docs/results/dynamics", "dynamics/runs.md"),
    ("paper_report.py", None, "paper.md"),
)
PAGES = ("docs/results/README.md", "docs/results/laboratory.md", "docs/off-policy.md", "README.md")
WITH_ERROR = re.compile(r"([+-]?\d+(?:\.\d+)?) ± ?(\d+(?:\.\d+)?)")


def run(script, *arguments):
    subprocess.run([sys.executable, STUDIES / script, *map(str, arguments)], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "study", "made"), REPORTS, ids=[script for script, _, _ in REPORTS])
def test_the_report_is_made_again(script, study, made, tmp_path):
    run(script, *filter(None, [study]), tmp_path)
    assert (tmp_path / Path(made).name).read_text() == (RESULTS / made).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("study", ["off_policy", pytest.param("study", marks=pytest.mark.full)])
def test_unpacked_runs_are_a_table_and_pack_to_the_same_metrics(study, tmp_path, capsys):
    run("compact.py", "unpack", RESULTS / study, tmp_path / "runs")
    folder = tmp_path / "runs" / ("steps_16" if study == "study" else "")
    assert cli.main(["table", str(folder), "--paper", "8"]) == 0
    assert "RPG-REINFORCE-URKL" in capsys.readouterr().out
    for environment in (path.with_name("environment.json") for path in tmp_path.rglob("metrics.jsonl")):
        environment.write_text('{"git_commit": "0"}')
    run("compact.py", "pack", tmp_path / "runs", tmp_path / "again")
    assert (tmp_path / "again/metrics.csv").read_text() == (RESULTS / study / "metrics.csv").read_text()
    shared = [
        yaml.safe_load((folder / "settings.yaml").read_text()) for folder in (tmp_path / "again", RESULTS / study)
    ]
    assert shared[0] == shared[1]


def test_the_score_before_filtering_adds_the_dropped_groups():
    """In real runs the added rewards of dropped groups lie between -2 (wrong and too long) and 1 per group."""
    with open(RESULTS / "factors/metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["critic/score_before_filtering/mean"]]
    assert len(rows) == 384
    for row in rows:
        kept, dropped = (
            float(row[f"training/filter_groups/{key}"] or 0) for key in ("discarded_surplus_samples", "evicted_samples")
        )
        kept += 32
        mean, before = float(row["critic/score/mean"]), float(row["critic/score_before_filtering/mean"])
        added = before * (kept + dropped) - mean * kept
        assert -2 * dropped - 1e-3 <= added <= dropped + 1e-3
        assert dropped == 0 or before != mean


def published():
    """Every value ± error in the generated files, as pairs of numbers."""
    reported = set()
    for _, _, made in REPORTS:
        reported |= {(float(value), float(error)) for value, error in WITH_ERROR.findall((RESULTS / made).read_text())}
    measured = []
    for path in (RESULTS / "lab").glob("*.csv"):
        with open(path) as file:
            for row in csv.DictReader(file):
                measured += [(float(row[key]), float(row[f"{key}_se"])) for key in row if f"{key}_se" in row]
    return reported, measured


@pytest.mark.parametrize("page", PAGES)
def test_numbers_with_an_error_are_those_of_the_files(page):
    """Numbers of the laboratory are rounded on the page; those of the reports stand there as they were made."""
    made, measured = published()
    text = (ROOT / page).read_text()
    pairs = [match.groups() for match in WITH_ERROR.finditer(text)]
    for value, error in pairs:
        digits = len(error.partition(".")[2])
        pair = (float(value), float(error))
        assert pair in made or any((round(v, digits), round(e, digits)) == pair for v, e in measured), (page, pair)
