"""Whether the installed verl is the version that the plugin is written for; RPG_ALLOW_VERL=1 tries another."""

from collections.abc import Iterator

from rpg.checks.check import ABSENT, Diagnostic, Run, check
from rpg.verl_plugin import version

SWITCH = f"{version.ALLOW}=1"


@check("verl's version", f"verl is {version.VERL}, or {SWITCH} allows another", subject="machine")
def verl_version(run: Run) -> Iterator[Diagnostic]:
    """Asked before the configuration is composed, which extends verl's; the run is not read.

    Another verl is refused because what it changes may be silent; scripts/check_verl.py compares it with what the
    plugin relies on.
    """
    here = version.installed()
    if here is None:
        yield Diagnostic("verl", ABSENT, "is not installed", f"bash scripts/setup.sh, or {version.INSTALL}")
    elif not version.is_ours(here):
        wrong = f"is not {version.VERL}, the version that the plugin is written for and tested with"
        if version.allowed():
            yield Diagnostic("verl", here, wrong, "python scripts/check_verl.py lists the differences", "warning")
        else:
            yield Diagnostic("verl", here, wrong, f"{version.INSTALL}, or set {SWITCH} to try it")
