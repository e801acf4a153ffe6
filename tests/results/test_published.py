"""The numbers of the pages are those of the tables that scripts/studies makes from docs/results/*.parquet."""

import re
from pathlib import Path

import pytest

from scripts.studies.__main__ import STUDIES

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/results/README.md", "docs/off-policy.md", "README.md")
WITH_ERROR = re.compile(r"[+-]?\d+(?:\.\d+)? ± \d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def made() -> list[str]:
    """Return the lines of all tables."""
    return [line for study in STUDIES.values() for table in study.tables() for line in table.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_values_with_an_error_are_in_the_tables(page, made):
    values = set(WITH_ERROR.findall((ROOT / page).read_text()))
    assert values <= set(WITH_ERROR.findall("\n".join(made)))


@pytest.mark.parametrize("page", PAGES[:2])
def test_rows_with_decimals_are_rows_of_the_tables(page, made):
    rows = [line for line in (ROOT / page).read_text().splitlines() if re.match(r"\|.*\d\.\d\d", line)]
    assert len(rows) > 3
    assert [row for row in rows if row not in made] == []


def test_numbers_of_three_decimals_are_in_the_tables(made):
    page = (ROOT / "docs/results/README.md").read_text()
    assert set(re.findall(r"\d\.\d{3,}", page)) <= set(re.findall(r"\d\.\d{3,}", "\n".join(made)))
