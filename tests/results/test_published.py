"""The numbers of the pages are those of the logs and of the tables that scripts/studies makes from them."""

import re
from pathlib import Path

import pytest

from scripts.studies.__main__ import STUDIES

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
