"""What the installed verl is enough for; importing this module does not import verl.

Losses, estimators and their config class work with 0.6.1 and later; worker, trainer, reference, schedule-free and
`rpg train` with the versions of SYSTEM.
"""

import sys
from importlib import metadata

from rpg.diagnostics import ABSENT, Diagnostic, Refused

VERL = "0.9.1"  # the version of requirement.txt and requirements/cpu.txt, with which everything is tested
SYSTEM = ">=0.9,<0.10"  # as in the extra [system] of pyproject.toml
INSTALL = f"pip install verl=={VERL}"


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


def require() -> None:
    """Raise Refused for a verl that is missing or outside SYSTEM, whose changes may act silently."""
    if not has_system(verl := installed()):
        message = f"whole runs need {SYSTEM}; for the losses in other versions see docs/plain_verl.md"
        raise Refused([Diagnostic("verl", verl or ABSENT, message, f"bash scripts/setup.sh, or {INSTALL}")])


def missing_extra(error: ImportError) -> str | None:
    """Return a message for a package that is not installed; None for another failure of an import."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "rpg").split(".")[0] == "rpg":
        return None
    return f"{error} in {sys.prefix}; what this package needs comes with pip install 'rpg-verl[system]'"
