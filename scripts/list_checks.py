#!/usr/bin/env python3
"""docs/checks.md: every check with its rule, made from the checks themselves.

python scripts/list_checks.py [--into docs/checks.md]
"""

import argparse
from pathlib import Path

from rpg.checks.machine import VARIABLES
from rpg.checks.preflight import CHECKS

HEAD = """# Checks

A launch script runs the checks below before it starts Ray. It prints every diagnostic with the setting, its value and \
the remedy, and exits with code 2 if a check fails. `rpg doctor SCRIPT` runs the same checks without a run, and two \
slower ones. A job is checked twice: its settings where you submit, files and machine \
where it runs.

A setting must have the type of verl's default, or of its field in verl's dataclass. `RANGES` in \
`rpg/checks/settings.py` adds ranges and choices, and defines the block `rpg:`. A setting that nothing reads is \
refused with the nearest name.

Made by `python scripts/list_checks.py --into docs/checks.md`.
"""
SECTIONS = {"settings": "Settings", "files": "Files", "machine": "Machine"}
ONLY_DOCTOR = " (`rpg doctor` only)"


def page() -> str:
    """The page."""
    lines = [HEAD]
    for subject, title in SECTIONS.items():
        lines += [f"## {title}", ""]
        for check in CHECKS:
            if check.subject == subject:
                where = ONLY_DOCTOR if check.cost == "thorough" else ""
                lines.append(f"- **{check.name}**: {check.rule}{where}")
        lines.append("")
    lines += ["## Environment variables", "", "A variable that is set but empty is refused.", ""]
    lines += [
        "| variable | value |",
        "|---|---|",
        *(f"| `{name}` | {wanted} |" for name, (_, wanted) in VARIABLES.items()),
    ]
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
