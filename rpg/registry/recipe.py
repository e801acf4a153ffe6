"""Where the recipe is, and its names of runs with their launch scripts.

`python -m rpg.registry.recipe NAME OVERRIDE...` prints a name's overrides, one a line, for launch.sh; nothing for
another name with method=. Without it the defaults would be trained under a misspelt name.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rpg.diagnostics import UserError, did_you_mean
from rpg.registry import scripts

RECIPE = Path(__file__).parents[1] / "recipe"  # in a checkout a link to recipe/rpg
SIZES = tuple(scripts.PARTS)


@dataclass(frozen=True)
class Script:
    """A name of a run, with its launch script if it has one.

    Attributes:
        name: without run_ and .sh.
        path: the launch script; None for a size without a folder.
        overrides: Hydra's, as in the file.
    """

    name: str
    path: Path | None
    overrides: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The command that starts the run, to which overrides may be added."""
        if self.path is None:
            return [sys.executable, "-m", "rpg.cli", "train", self.name]
        return ["bash", str(self.path)]


def checkout() -> Path | None:
    """Return the checkout that this package is in, or None for an installed package."""
    recipe = RECIPE.resolve()
    return recipe.parents[1] if recipe.parts[-2:] == ("recipe", "rpg") else None


def home() -> Path:
    """Return the directory of data/ and runs/: RPG_HOME, else the checkout, else the current directory."""
    return Path(os.environ["RPG_HOME"]) if "RPG_HOME" in os.environ else checkout() or Path.cwd()


def find(script: str | Path) -> Script:
    """Return the script of this name (`dapo_7b`, `run_dapo_7b.sh`) or path (`7b/run_dapo_7b.sh`).

    Raises UserError with the nearest name.
    """
    path, known = Path(script), scripts.listed()
    name = path.name.removeprefix("run_").removesuffix(".sh")
    if name in known and path.parent.name in ("", *SIZES):
        size = known[name].size
        launcher = RECIPE / size / f"run_{name}.sh" if size in scripts.FOLDERS else None
        return Script(name, launcher, tuple(scripts.overrides(known[name])))
    if path.is_file():
        raise UserError(f"{script}: is not a script of recipe/rpg; start your own script with bash")
    hint = f"; {near}" if (near := did_you_mean(name, known, 0.3)) else ""
    raise UserError(f"{script}: no run has this name; `rpg list` prints all{hint}")


if __name__ == "__main__":
    try:
        print(*scripts.overrides(scripts.parse(sys.argv[1])), sep="\n")
    except scripts.UnknownName as error:
        if not any(text.startswith("method=") for text in sys.argv[2:]):
            sys.exit(f"error: {error}; a name of your own needs method=")
