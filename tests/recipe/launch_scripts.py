"""The launch scripts, their arguments, and their configurations."""

import functools
import shlex
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rpg.config.compose import compose_config, resolve
from rpg.registry.recipe import SIZES

RECIPE = Path(__file__).parents[2] / "recipe" / "rpg"
SCRIPTS = {path.stem.removeprefix("run_"): path for size in SIZES for path in sorted((RECIPE / size).iterdir())}


def arguments(path: Path) -> list[str]:
    """Return the Hydra overrides of a script."""
    words = shlex.split(path.read_text().replace("\\\n", ""), comments=True)
    line = "script=$(readlink -f $0) && exec bash ${script%/*}/../launch.sh $script"  # its quotes are shlex's to read
    assert words[:8] == line.split(), path
    assert words[-1] == "$@", path
    return words[8:-1]


@functools.cache
def composed(name: str) -> DictConfig:
    """Return the resolved configuration of a script; read-only."""
    return OmegaConf.create(resolve(compose_config([f"rpg.script={name}", *arguments(SCRIPTS[name])])).config)
