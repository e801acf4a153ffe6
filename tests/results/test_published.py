"""The numbers of the pages are those of the logs and of the tables that scripts/studies makes from them."""

import re
from pathlib import Path

import pandas
import pytest

from scripts.studies.__main__ import STUDIES
from scripts.studies.lab import report
from scripts.studies.lab.scope import RESPONSE

ROOT = Path(__file__).resolve().parents[2]
WITH_ERROR = re.compile(r"[+-]?\d+(?:\.\d+)? ± \d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def made() -> list[str]:
    """Return the lines of all tables."""
    return [line for study in STUDIES.values() for table in study() for line in table.splitlines()]


def test_values_with_an_error_are_in_the_tables(made):
    values = set(WITH_ERROR.findall((ROOT / "docs/results/README.md").read_text()))
    assert values
    assert values <= set(WITH_ERROR.findall("\n".join(made)))


def test_rows_with_decimals_are_rows_of_the_tables(made):
    page = (ROOT / "docs/results/README.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\|.*\d\.\d\d", line)]
    assert len(rows) > 3
    assert [row for row in rows if row not in made] == []


def test_numbers_of_three_decimals_are_in_the_tables(made):
    page = (ROOT / "docs/results/README.md").read_text()
    assert set(re.findall(r"\d\.\d{3,}", page)) <= set(re.findall(r"\d\.\d{3,}", "\n".join(made)))


def test_readmes_first_result_is_that_of_the_runs():
    logged = pandas.read_parquet(ROOT / "docs/results/pretrained.parquet").dropna(subset="accuracy")
    page = (ROOT / "README.md").read_text()
    by_run = logged.sort_values("step").groupby("run").accuracy
    first, last = by_run.first(), by_run.last()
    sampled, greedy = (last[last.index.str.startswith(kind)] for kind in ("smollm2-", "greedy-"))
    for before, after in ((first[sampled.index].mean(), sampled), (last["untrained-seed0"], greedy)):
        *others, final = (f"{value:.2f}" for value in after)
        assert f"from {before:.2f} to {', '.join(others)} and {final}" in page
    assert f"in {logged.step.max()} steps" in page


def test_the_rule_of_the_kls_scope_is_that_of_the_cells():
    cells = report.by_end()
    rising = cells[cells.end == "above its start"]
    less = rising[f"{RESPONSE} less token"]
    better = (less > 2 * rising[f"{RESPONSE} less token_se"]).sum()
    said = f"in {better} of the {len(rising)} cells whose J per token ends above its start, by {less.mean():.2f} on"
    assert said in (ROOT / "docs/results/README.md").read_text()


CHOSEN = r"[Bb]elow 0\.05|exceeded 0\.05|above 0\.1"  # limits, not measured


def facts():
    """Yield the statements of docs/results.md, "Reading a run", from the logs of the stability runs."""
    metrics = pandas.read_parquet(ROOT / "docs/results/stability.parquet")
    trained = metrics[metrics.step > 0].set_index(["run", "step"])
    keys = ("critic/score/mean", "training/off_policy/kl", "training/off_policy/ess", "actor/entropy")
    score, kl, ess, entropy = (trained[key].unstack("step") for key in keys)
    means = score.T.rolling(3).mean().T  # of a batch and the two before it
    best = means.max(axis=1)
    broke = means[12] < 0.5 * best
    held = ~broke
    yield f"[{len(score)} stability runs]"
    yield f"{broke.sum()} runs broke"

    def over(values, limit):
        passed = (values > limit).any(axis=1)
        return passed[broke].sum(), passed[held].sum()

    warned, others = over(kl, 0.05)
    assert warned == broke.sum()
    ahead = []
    for run in score.index[broke]:
        after = means.loc[run].idxmax()
        low = score.loc[run] < 0.5 * best[run]
        halved = next(step for step in score.columns if step > after and low[step])
        ahead.append(halved - next(step for step in kl.columns if kl.loc[run, step] > 0.05))
    yield f"all {warned} runs that broke, {min(ahead)} to {max(ahead)} batches before the reward halved"
    yield f"in {others} of the other {held.sum()}"
    seven, four = over(kl, 0.1)
    yield f"of {seven + four} above 0.1, {seven} did"
    median = ess.median(axis=1)
    yield f"{median[broke].median():.2f} in runs that broke and {median[held].median():.2f} in the others"
    yield f"from {entropy[1].mean():.2f} nats to {entropy[12][held].mean():.2f} in runs that held"
    yield f"and to {entropy[12][broke].mean():.2f} in runs that broke"


def test_the_numbers_of_reading_a_run_are_those_of_the_logs():
    section = (ROOT / "docs/results.md").read_text().partition("## Reading a run\n")[2]
    for fact in facts():
        assert fact in section, fact
        section = section.replace(fact, "")
    assert not re.findall(r".{20}\d\.\d.{20}", re.sub(CHOSEN, "", section))
