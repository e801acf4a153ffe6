"""docs/results: tables are remade from the committed files, and the pages' numbers are those of the tables."""

import csv
import math
import re
import subprocess
import sys
from pathlib import Path

import pandas
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
    ("kl_scope_report.py", "docs/results/kl_scope", "kl_scope/runs.md"),
    ("clip_or_kl_report.py", "docs/results/clip_or_kl", "clip_or_kl/runs.md"),
    ("paper_report.py", None, "paper.md"),
)
PAGES = ("docs/results/README.md", "docs/results/laboratory.md", "docs/off-policy.md", "README.md")
WITH_ERROR = re.compile(r"([+-]?\d+(?:\.\d+)?) ± ?(\d+(?:\.\d+)?)")
# numbers of a page that were chosen, not measured: code and links, settings, minutes
CHOSEN = re.compile(
    r"`[^`]*`|\]\(\S+\)|2\.5 min"
    r"|(beta|KL of|lr|clip|Clip|and below it at|at accuracy|reaches|verl) \(?[\d.]+((,| and) [\d.]+)?"
)


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


def published():
    """Return every value ± error in the generated files, as pairs of numbers."""
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
    """The page rounds numbers of the laboratory, and quotes those of the reports."""
    made, measured = published()
    text = (ROOT / page).read_text()
    pairs = [match.groups() for match in WITH_ERROR.finditer(text)]
    for value, error in pairs:
        digits = len(error.partition(".")[2])
        pair = (float(value), float(error))
        assert pair in made or any((round(v, digits), round(e, digits)) == pair for v, e in measured), (page, pair)


def value(made, column, *row):
    """Return the number in a column of a generated file, in the row that begins with these cells."""
    head = []
    for line in (RESULTS / made).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if column in cells:
            head = cells
        elif head and cells[: len(row)] == list(row):
            return float(cells[head.index(column)].partition(" ±")[0])
    raise LookupError(f"{made}: no row {row} with a column {column}")


def lower(steps):
    """Return by how much six methods end lower than with 16 steps per batch, minimum and maximum."""
    ends = []
    for row in ("GRPO", "DAPO", "RPG-UFKL", "RPG-URKL", "RPG-REINFORCE-UFKL", "RPG-REINFORCE-URKL"):
        own, other = (value("study/methods.md", f"accuracy, {n} steps", row) for n in (16, steps))
        ends.append(own - other)
    return f"{min(ends):.2f} to {max(ends):.2f} lower"


def facts_of_the_study():
    every = pandas.read_csv(RESULTS / "study/metrics.csv")
    rows = every[every.run.str.startswith("steps_16/")]
    start, end = every[every.step == 0], rows[rows.step == 12]
    start, end = (validated.filter(like="/acc/").squeeze(axis=1).mean() for validated in (start, end))
    yield f"from {start:.2f} to about {end:.1f} for every method"
    yield f"2 steps end {lower(2)} and 64 steps {lower(64)}"


def facts_of_the_identity():
    identity = pandas.read_csv(RESULTS / "lab/identity.csv")
    most = math.ceil(identity[["divergences", "rows"]].max(axis=None) * 1e4) / 1e4
    yield f"differ by at most {most} of the token gradient"
    yield f"by {most} of the token gradient |"


def facts_of_the_factors():
    filtered = [(loss, kind, "on") for loss in ("RPG-REINFORCE-URKL", "DAPO") for kind in ("divided", "not divided")]
    prompts = [value("factors/runs.md", "prompts per batch", *cell) for cell in filtered]
    yield f"samples {sum(prompts) / 4:.1f} prompts per batch instead of 32"
    power = value("factors/runs.md", "90 % power", "RPG-REINFORCE-URKL minus DAPO")
    yield f"90 % power: {power:.3f}"


def facts_of_the_longer_runs():
    every = pandas.read_csv(RESULTS / "dynamics/metrics.csv")
    last = every[every.step == 48]
    entropy = [at["actor/entropy"].mean() for at in (every[every.step == 1], last)]
    yield f"accuracy levels off near {last.filter(like='mean@8').squeeze(axis=1).mean():.2f}"
    yield f"entropy falls from {entropy[0]:.2f} to {entropy[1]:.2f} nats"
    yield f"pass@8 stays near {every.filter(like='best@8/mean').squeeze(axis=1).mean():.2f}"


def facts_of_large_steps():
    rows = ("no clip", "RPG-Style (0.2, 0.28)", "GRPO (0.2, 0.28)", "URKL 0.03, no clip", "UFKL 0.03, no clip")
    none, clip, grpo, urkl, ufkl = (f"{value('stability/runs.md', 'accuracy', row):.3f}" for row in rows)
    yield f"90 % power: {value('stability/runs.md', 'end less halfway', '90 % power'):.3f}"
    yield f"{clip} against {none} without a clip, GRPO's clip {grpo}"
    yield f"({urkl} and {ufkl} against {none})"


def facts_of_the_kl_of_responses():
    power = value("kl_scope/runs.md", "90 % power", "response minus per token", "0.1 and 0.3")
    yield f"90 % power: {power:.3f}"


def facts_of_the_kl_or_the_clip():
    row = "URKL 1, no clip minus RPG-Style (0.2, 0.28)"
    yield f"90 % power: {value('clip_or_kl/runs.md', '90 % power', row):.3f}"


def facts_of_stale_rollouts():
    made, row = "off_policy/runs.md", "RPG-REINFORCE-URKL (no clip)"
    ends = {
        old: [f"{value(made, f'{n} ahead', row, f'`{old}`'):.2f}" for n in (2, 4)] for old in ("recomputed", "behavior")
    }
    yield f"ends at {' and '.join(ends['recomputed'])} with 2 and 4 batches ahead"
    yield f"with `behavior` at {' and '.join(ends['behavior'])}"


def facts_of_the_papers_tables():
    [summary] = re.findall(r"Over all.*", (RESULTS / "paper.md").read_text())
    highest, deviation = (re.findall(rf"{before} ([+\d.]+\d)", summary)[0] for before in ("column is", "deviation of"))
    yield f"with a standard deviation of {deviation}"
    yield f"the highest row of the highest column, {highest}"


def facts_of_all():
    """Numbers of runs of the studies, and of true expectations."""
    runs = {path.parent.name: len(path.read_text().splitlines()) - 1 for path in RESULTS.glob("*/runs.csv")}
    yield f"[{runs['dynamics']} runs](dynamics/runs.md)"
    yield f"[{runs['stability']} runs](stability/runs.md)"
    yield f"[{runs['kl_scope']} runs](kl_scope/runs.md)"
    yield f"[{runs['clip_or_kl']} more runs](clip_or_kl/runs.md)"
    yield f"[{runs['off_policy']} runs](off_policy/runs.md)"
    headings = re.findall(r"(\d+) of (\d+) true", (RESULTS / "expectations.md").read_text())
    true, expected = (sum(map(int, numbers)) for numbers in zip(*headings, strict=True))
    yield f"Of [{expected} expectations](expectations.md), committed before the runs, {true} came true"


FACTS = (
    facts_of_the_study,
    facts_of_the_identity,
    facts_of_the_factors,
    facts_of_the_longer_runs,
    facts_of_large_steps,
    facts_of_the_kl_of_responses,
    facts_of_the_kl_or_the_clip,
    facts_of_stale_rollouts,
    facts_of_the_papers_tables,
    facts_of_all,
)


def test_every_other_number_of_the_page_is_made_again():
    page = rest = (RESULTS / "README.md").read_text()
    for fact in (fact for make in FACTS for fact in make()):
        assert fact in page, fact
        rest = rest.replace(fact, "")
    assert not re.findall(r".{30}\d\.\d.{30}", CHOSEN.sub("", WITH_ERROR.sub("", rest)))
