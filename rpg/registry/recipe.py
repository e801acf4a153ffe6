"""Where the recipe is, and its launch scripts by name."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from rpg.registry import scripts

RECIPE = Path(__file__).parents[1] / "recipe"  # in a checkout a link to recipe/rpg
SIZES = tuple(scripts.PARTS)


class UnknownScript(ValueError):
    """No launch script has this name; the message has the nearest one."""


@dataclass(frozen=True)
class Script:
    """A launch script.

    Attributes:
        name: the run's name, which is the file's without run_ and .sh.
        overrides: Hydra's, as in the file.
    """

    name: str
    path: Path
    overrides: tuple[str, ...]


def checkout() -> Path | None:
    """Return the checkout that this package is in, or None for an installed package."""
    recipe = RECIPE.resolve()
    return recipe.parents[1] if recipe.parts[-2:] == ("recipe", "rpg") else None


def home() -> Path:
    """Return the directory of data/ and runs/: RPG_HOME, else the checkout, else the current directory."""
    return Path(os.environ["RPG_HOME"]) if "RPG_HOME" in os.environ else checkout() or Path.cwd()


def paths() -> dict[str, Path]:
    """Return every launch script of the recipe by its name."""
    return {text: RECIPE / name.size / f"run_{text}.sh" for text, name in scripts.scripts().items()}


def find(script: str | Path) -> Script:
    """Return the script of this name (`dapo_7b`, `run_dapo_7b.sh`) or path (`7b/run_dapo_7b.sh`).

    Raises UnknownScript.
    """
    path, known = Path(script), paths()
    name = path.name.removeprefix("run_").removesuffix(".sh")
    if name in known and path.parent.name in ("", *SIZES):
        return Script(name, known[name], tuple(scripts.overrides(scripts.parse(name))))
    if path.is_file():
        raise UnknownScript(f"{script}: is not a script of recipe/rpg; start your own script with bash")
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UnknownScript(f"{script}: not a script of recipe/rpg (rpg list){hint}")
