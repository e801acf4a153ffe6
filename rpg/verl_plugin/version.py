"""The verl version of this plugin and the installed one; does not import verl."""

import os
from importlib import metadata

VERL = "0.9.1"
INSTALL = f"pip install verl=={VERL}"
ALLOW = "RPG_ALLOW_VERL"


def installed() -> str | None:
    """Return the version of the installed verl, or None."""
    try:
        return metadata.version("verl")
    except metadata.PackageNotFoundError:
        return None


def is_ours(version: str | None) -> bool:
    """Return whether a version is VERL; local builds (0.9.1+abc) count, as for pip."""
    return version is not None and version.partition("+")[0] == VERL


def allowed() -> bool:
    """Return whether another version may be tried."""
    return os.environ.get(ALLOW) == "1"
