"""The launch scripts, the parts of their names, and their configurations."""

import functools
from collections.abc import Iterable

import pytest
from omegaconf import DictConfig, OmegaConf

from rpg.config.compose import of_script
from rpg.registry.scripts import RECIPE, paths, read
from scripts import make_recipe

SCRIPTS = paths()
NAMES = make_recipe.names()


@functools.cache
def composed(name: str) -> DictConfig:
    """Return the resolved configuration of a launch script; read-only."""
    return OmegaConf.create(of_script(read(SCRIPTS[name]), []).config)


def cover(names: Iterable[str]) -> list:
    """Return a test's parameters: scripts that together have every override of the scripts; full: all others."""
    seen: set[str] = set()
    parameters = []
    for name in names:
        own = {*read(SCRIPTS[name]).overrides}
        parameters.append(name if own - seen else pytest.param(name, marks=pytest.mark.full))
        seen |= own
    return parameters


COVER = cover(SCRIPTS)


def unused_entries() -> list[str]:
    """Return GROUP=ENTRY for every entry of a Hydra group that no script chooses."""
    chosen = {text for path in SCRIPTS.values() for text in read(path).overrides}
    files = (RECIPE / "config").glob("*/*.yaml")
    return sorted({f"{file.parent.name}={file.stem}" for file in files} - chosen)
