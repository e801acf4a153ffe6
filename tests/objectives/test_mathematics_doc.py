"""The code quoted in docs/mathematics.md must exist in the files."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_quoted_line_is_in_the_file():
    page = (ROOT / "docs" / "mathematics.md").read_text()
    section = page.partition("The lines of `rpg/objectives/losses.py`")[2].partition("\n\n`actor/")[0]
    lines = re.findall(r"`([^`]+)`", section.partition("\n")[2])
    assert len(lines) == 8  # two of each divergence
    code = (ROOT / "rpg/objectives/losses.py").read_text()
    assert [line for line in lines if line not in code] == []
