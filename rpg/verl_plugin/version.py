"""Which verl this package needs; importing this module does not import verl.

Losses, estimators and their config class work with 0.6.1 and later. `rpg train`, with worker, trainer, references and
schedule-free, replaces private parts of verl, whose changes act silently, and takes VERL alone. An example: 0.9.0
leaves responses without a reward out of accuracies, in which 0.9.1 counts them as wrong.
"""

import sys
from importlib import metadata

from rpg.diagnostics import ABSENT, Diagnostic, Refused

VERL = "0.9.1"  # as in the extra [system] of pyproject.toml, requirement.txt and requirements/cpu.txt
INSTALL = f"pip install verl=={VERL}"


def installed(name: str = "verl") -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def require() -> None:
    """Raise Refused unless verl is VERL, or a local build of it (0.9.1+abc)."""
    if (verl := installed()) is None or verl.partition("+")[0] != VERL:
        message = f"whole runs need {VERL}; for the losses in other versions see docs/plain_verl.md"
        raise Refused([Diagnostic("verl", verl or ABSENT, message, f"bash scripts/setup.sh, or {INSTALL}")])


def missing_extra(error: ImportError) -> str | None:
    """Return a message for a package that is not installed; None for another failure of an import."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "rpg").split(".")[0] == "rpg":
        return None
    return f"{error} in {sys.prefix}; what this package needs comes with pip install 'rpg-verl[system]'"
