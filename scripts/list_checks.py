#!/usr/bin/env python3
"""Print docs/checks.md: every check with its rule.

python scripts/list_checks.py > docs/checks.md
"""

from rpg.config.machine import VARIABLES
from rpg.config.preflight import CHECKS

HEAD = """# Checks

A launch script runs the checks below before it starts Ray. It prints every diagnostic with the setting, its value and \
the remedy, and exits with code 2 if a check fails. `rpg doctor SCRIPT` runs the same checks without a run, and three \
slower ones. A job's settings are checked where you submit, files and machine where it runs. `RANGES` in \
`rpg/config/settings.py` lists ranges and choices.

Made by `python scripts/list_checks.py > docs/checks.md`."""

if __name__ == "__main__":
    print(HEAD)
    for subject in ("settings", "files", "machine"):
        print(f"\n## {subject.capitalize()}\n")
        for check in CHECKS:
            if check.subject == subject:
                print(f"- **{check.name}**: {check.rule}{' (`rpg doctor` only)' if check.cost == 'thorough' else ''}")
    print("\n## Environment variables\n\nA variable that is set but empty is refused.\n")
    print("| variable | value |\n|---|---|")
    for name, (_, wanted) in VARIABLES.items():
        print(f"| `{name}` | {wanted} |")
