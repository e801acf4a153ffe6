"""Where the recipe is, and its names of runs with their launch scripts.

`python -m rpg.registry.recipe NAME OVERRIDE...` prints a name's overrides, one a line, for launch.sh; nothing for
another name with method=. Without it the defaults would be trained under a misspelt name.
"""

import difflib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rpg.diagnostics import UserError
from rpg.registry import scripts

RECIPE = Path(__file__).parents[1] / "recipe"  # in a checkout a link to recipe/rpg
SIZES = tuple(scripts.PARTS)


class UnknownScript(UserError):
    """No run has this name; the message has the nearest one."""


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


def paths() -> dict[str, Path]:
    """Return every launch script of the recipe by its name."""
    with_script = {text: name.size for text, name in scripts.listed().items() if name.size in scripts.FOLDERS}
    return {text: RECIPE / size / f"run_{text}.sh" for text, size in with_script.items()}


def find(script: str | Path) -> Script:
    """Return the script of this name (`dapo_7b`, `run_dapo_7b.sh`) or path (`7b/run_dapo_7b.sh`).

    Raises UnknownScript.
    """
    path, known = Path(script), scripts.listed()
    name = path.name.removeprefix("run_").removesuffix(".sh")
    if name in known and path.parent.name in ("", *SIZES):
        return Script(name, paths().get(name), tuple(scripts.overrides(known[name])))
    if path.is_file():
        raise UnknownScript(f"{script}: is not a script of recipe/rpg; start your own script with bash")
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UnknownScript(f"{script}: no run has this name; `rpg list` prints all{hint}")


if __name__ == "__main__":
    try:
        print(*scripts.overrides(scripts.parse(sys.argv[1])), sep="\n")
    except scripts.UnknownName as error:
        if not any(text.startswith("method=") for text in sys.argv[2:]):
            sys.exit(f"error: {error}; a name of your own needs method=")
