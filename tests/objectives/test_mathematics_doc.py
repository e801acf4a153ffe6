"""docs/mathematics.md quotes code; a quotation that is no longer in the file is wrong documentation."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_quoted_line_is_where_the_page_says():
    page = (ROOT / "docs" / "mathematics.md").read_text()
    quotations = re.findall(r"`(rpg/[\w/]+\.py)`: `([^`]+)`", page)
    assert len(quotations) >= 14  # eight rows of divergences, six lines of terms
    for file, line in quotations:
        assert line in (ROOT / file).read_text(), f"{file}: {line}"
