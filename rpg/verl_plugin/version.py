"""What the installed verl is enough for; importing this module does not import verl.

Losses, estimators and their config class work with 0.6.1 and later; worker, trainer, reference, schedule-free and
`rpg train` with the versions of SYSTEM.
"""

import os
import sys
from importlib import metadata

from rpg.diagnostics import ABSENT, Diagnostic, Refused

VERL = "0.9.1"  # the version of requirement.txt and requirements/cpu.txt, with which everything is tested
SYSTEM = ">=0.9,<0.10"  # as in the extra [system] of pyproject.toml
INSTALL = f"pip install verl=={VERL}"
ALLOW = "RPG_ALLOW_VERL"  # 1: the system may be tried on another version


def installed(name: str = "verl") -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def has_system(version: str | None) -> bool:
    """Return whether a version is in SYSTEM; local builds (0.9.1+abc) and pre-releases (0.9.1.dev0) count."""
    from packaging.specifiers import SpecifierSet

    return version is not None and SpecifierSet(SYSTEM).contains(version, prereleases=True)


def unsupported() -> list[Diagnostic]:
    """Return a warning about an allowed version outside SYSTEM, [] for one inside.

    Another verl is refused because its changes may act silently; scripts/check_verl.py compares it with what the plugin
    relies on.

    Raises:
        Refused: verl is missing, or its version is neither in SYSTEM nor allowed.
    """
    verl = installed()
    if verl is None:
        raise Refused([Diagnostic("verl", ABSENT, "is not installed", f"bash scripts/setup.sh, or {INSTALL}")])
    if has_system(verl):
        return []
    message = f"is not {SYSTEM}, which whole runs need; for other versions see docs/plain_verl.md"
    if os.environ.get(ALLOW) != "1":
        raise Refused([Diagnostic("verl", verl, message, f"{INSTALL}, or set {ALLOW}=1 to try it")])
    return [Diagnostic("verl", verl, message, "python scripts/check_verl.py lists the differences", "warning")]


def missing_extra(error: ImportError) -> str | None:
    """Return a message for a package that is not installed; None for another failure of an import."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "rpg").split(".")[0] == "rpg":
        return None
    return f"{error} in {sys.prefix}; what this package needs comes with pip install 'rpg-verl[system]'"
