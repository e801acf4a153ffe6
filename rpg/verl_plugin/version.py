"""The verl that this plugin is written for, and the one that is here; verl is not imported."""

import os
from importlib import metadata

VERL = "0.9.1"
INSTALL = f"pip install verl=={VERL}"
ALLOW = "RPG_ALLOW_VERL"


def installed() -> str | None:
    """The version of the verl that is installed, None where none is."""
    try:
        return metadata.version("verl")
    except metadata.PackageNotFoundError:
        return None


def is_ours(version: str | None) -> bool:
    """Whether a version is VERL; a local build of it (0.9.1+abc) counts as pip counts it."""
    return version is not None and version.partition("+")[0] == VERL


def allowed() -> bool:
    """Whether another version may be tried."""
    return os.environ.get(ALLOW) == "1"
