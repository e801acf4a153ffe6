"""The launch scripts, their arguments, and the configurations of all listed names."""

import functools
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from rpg.config.compose import compose_config, resolve
from rpg.registry.scripts import FOLDERS, listed, overrides, parse

RECIPE = Path(__file__).parents[2] / "recipe" / "rpg"
SCRIPTS = {path.stem.removeprefix("run_"): path for size in FOLDERS for path in sorted((RECIPE / size).iterdir())}


def arguments(path: Path) -> list[str]:
    """Return the Hydra overrides of a script."""
    words = shlex.split(path.read_text().replace("\\\n", ""), comments=True)
    line = "script=$(readlink -f $0) && exec bash ${script%/*}/../launch.sh $script"  # its quotes are shlex's to read
    assert words[:8] == line.split(), path
    assert words[-1] == "$@", path
    return words[8:-1]


@functools.cache
def composed(name: str) -> DictConfig:
    """Return the resolved configuration of a listed name; read-only."""
    own = arguments(SCRIPTS[name]) if name in SCRIPTS else overrides(listed()[name])
    return OmegaConf.create(resolve(compose_config([f"rpg.script={name}", *own])))


def cover(names: Iterable[str]) -> list:
    """Return a test's parameters: names that together have every value of every part of a name; full: all others."""
    seen: set[tuple] = set()
    parameters = []
    for name in names:
        run = parse(name)
        values = {*vars(run).items(), ("pi_old", run.pi_old)}
        parameters.append(name if values - seen else pytest.param(name, marks=pytest.mark.full))
        seen |= values
    return parameters


COVER = cover(listed())
