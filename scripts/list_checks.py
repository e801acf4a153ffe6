#!/usr/bin/env python3
"""docs/checks.md: every check with its rule, its cost and its tests, made from the checks themselves.

python scripts/list_checks.py [--into docs/checks.md]
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for the cases of tests/

from rpg.checks.machine import VARIABLES  # noqa: E402
from rpg.checks.preflight import CHECKS  # noqa: E402
from tests.checks.cases import CASES, ELSEWHERE  # noqa: E402

COSTS = {
    "cheap": "cheap",
    "verl": "cheap, but asks verl",
    "thorough": "thorough",
}
HEAD = """# Checks

Will this run work? Made by `python scripts/list_checks.py --into docs/checks.md`; the checks are in `rpg/checks/`.

A launch script asks the cheap checks before anything is started, shows all that they find, and ends with exit code \
2, nothing touched: first those that need no verl (a few seconds), then, if they pass, those that ask verl itself, \
whose import takes longer. `rpg doctor SCRIPT` asks all, the thorough ones too, which read every row, load the \
tokenizer and estimate memory. A run that is submitted to a cluster is asked about its settings where it is \
submitted, and about files and machine where it runs.

A refusal names the setting, its value, what is wrong and what to do.

`tests/checks/test_campaign.py` puts a thousand wrong and odd settings through the launch command (full tier).
"""

TYPES = """## Types and ranges

All cheap, tested by `cases.py` and, one setting in two, by the campaign. `rpg.*` is the pydantic model `RpgSettings` \
in `rpg/checks/settings.py`. Every other setting has the type of verl's default, or of its field in verl's \
dataclass; `RANGES` in the same file adds ranges and choices. A setting that nothing reads is refused, with the \
nearest name."""


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def tested(name: str) -> str:
    """Where a check is tested, and how often."""
    if name in CASES:
        return f"cases.py: {len(CASES[name])}"
    return ELSEWHERE[name]


def page() -> str:
    """The page."""
    lines = [HEAD, "## The checks", "", "Single settings: see the next section.", ""]
    lines += [row("check", "rule", "cost", "about", "tested by (tests/checks)"), row(*["---"] * 5)]
    lines += [row(c.name, c.rule, COSTS[c.cost], c.subject, tested(c.name)) for c in CHECKS]
    lines += ["", TYPES]
    lines += ["", "## Environment variables", ""]
    lines += [
        "Cheap, tested by `test_preflight.py`. A variable that is set, and empty, is refused: it is not unset.",
        "",
    ]
    lines += [row("variable", "holds"), row("---", "---")]
    lines += [row(f"`{name}`", wanted) for name, (_, wanted) in VARIABLES.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path)
    into = parser.parse_args().into
    if into:
        into.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
