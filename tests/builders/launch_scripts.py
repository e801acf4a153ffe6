"""The launch scripts, the parts of their names, and their configurations."""

import functools
from collections.abc import Iterable

import pytest
from omegaconf import DictConfig, OmegaConf

from rpg.config.compose import of_script
from rpg.config.run_config import RunConfig
from rpg.registry.scripts import RECIPE, paths, read
from scripts import make_recipe

SCRIPTS = paths()
NAMES = make_recipe.names()


@functools.cache
def run_of(name: str) -> RunConfig:
    """Return the configuration of a launch script; composing takes half a second."""
    return of_script(read(SCRIPTS[name]), [])


def composed(name: str) -> DictConfig:
    """Return it as verl reads it."""
    return OmegaConf.create(run_of(name).config)


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
