"""What the installed verl is enough for; importing this module does not import verl.

core: losses, estimators and their config class, for any verl with what `lacks` looks for (0.6.1 and later).
system: worker, trainer, reference, schedule-free and `rpg train`, for the versions of SYSTEM.
"""

import inspect
import os
import sys
from importlib import metadata
from types import ModuleType

from rpg.diagnostics import ABSENT, Diagnostic, Refused

VERL = "0.9.1"  # the version of requirement.txt and requirements/cpu.txt, with which everything is tested
SYSTEM = ">=0.9,<0.10"  # as in the extra [system] of pyproject.toml
INSTALL = f"pip install verl=={VERL}"
ALLOW = "RPG_ALLOW_VERL"  # 1: the system may be tried on another version
SAID = "RPG_TIER_SAID"  # set once autoload.py has printed its line, so that child processes do not repeat it


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


def lacks(core_algos: ModuleType) -> list[str]:
    """Return what the core needs and verl's module core_algos lacks; without any, the core works."""
    names = ("POLICY_LOSS_REGISTRY", "ADV_ESTIMATOR_REGISTRY", "agg_loss")
    missing = [name for name in names if not hasattr(core_algos, name)]
    vanilla = getattr(core_algos, "POLICY_LOSS_REGISTRY", {}).get("vanilla")
    if vanilla is None or "rollout_is_weights" not in inspect.signature(vanilla).parameters:
        missing.append("rollout_is_weights of a policy loss")
    return missing
