"""The numbers of the pages are those of the logs and of the tables that scripts/studies makes from them."""

import re
from pathlib import Path

from scripts.studies.__main__ import STUDIES

ROOT = Path(__file__).resolve().parents[2]


def test_rows_errors_and_numbers_of_three_decimals_are_in_the_tables():
    page = (ROOT / "docs/results/README.md").read_text()
    made = [line for study in STUDIES.values() for table in study() for line in table.splitlines()]
    rows = [line for line in page.splitlines() if re.match(r"\|.*\d\.\d\d", line)]
    assert len(rows) > 3
    assert [row for row in rows if row not in made] == []
    for form in (r"[+-]?\d+(?:\.\d+)? ± \d+(?:\.\d+)?", r"\d\.\d{3,}"):
        values = set(re.findall(form, page))
        assert values
        assert values <= set(re.findall(form, "\n".join(made)))
