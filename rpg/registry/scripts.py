"""Where the recipe is, and its launch scripts: the files recipe/rpg/SIZE/run_NAME.sh are the registry of names."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from rpg.diagnostics import UserError, did_you_mean

RECIPE = Path(__file__).parents[1] / "recipe"  # in a checkout a link to recipe/rpg
SIZES = ("7b", "4b", "cpu")  # its folders of launch scripts


@dataclass(frozen=True)
class Script:
    """A launch script: its name without run_ and .sh, file, Hydra overrides, and the comment that describes it."""

    name: str
    path: Path
    overrides: tuple[str, ...]
    about: str

    @property
    def size(self) -> str:
        """The name of its folder."""
        return self.path.parent.name

    @property
    def command(self) -> list[str]:
        """The command that starts the run, to which overrides may be added."""
        return ["bash", str(self.path)]


def checkout() -> Path | None:
    """Return the checkout that this package is in, or None for an installed package."""
    recipe = RECIPE.resolve()
    return recipe.parents[1] if recipe.parts[-2:] == ("recipe", "rpg") else None


def home() -> Path:
    """Return the directory of data/ and runs/: RPG_HOME, else the checkout, else the current directory."""
    return Path(os.environ["RPG_HOME"]) if "RPG_HOME" in os.environ else checkout() or Path.cwd()


def paths() -> dict[str, Path]:
    """Return every launch script's file by its name, size by size."""
    files = (file for size in SIZES for file in sorted((RECIPE / size).glob("run_*.sh")))
    return {name_of(file): file for file in files}


def name_of(script: str | Path) -> str:
    """Return the name of a script's file."""
    return Path(script).name.removeprefix("run_").removesuffix(".sh")


def read(path: Path) -> Script:
    """Return a script, also one of the user's; without overrides if it does not have the form of recipe/rpg."""
    text = path.read_text()
    words = shlex.split(text.replace("\\\n", ""), comments=True)
    own = words[words.index("$script") + 1 : words.index("$@")] if {"$script", "$@"} <= {*words} else []
    about = next((line[2:] for line in text.splitlines() if line.startswith("# ")), "")
    return Script(name_of(path), path, tuple(own), about)


def find(script: str | Path) -> Script:
    """Return the script of this name (`dapo_7b`, `run_dapo_7b.sh`) or path (`7b/run_dapo_7b.sh`).

    Raises UserError with the nearest name.
    """
    path, known = Path(script), paths()
    name = name_of(path)
    if name in known and path.parent.name in ("", *SIZES):
        return read(known[name])
    if path.is_file():
        raise UserError(f"{script}: is not a script of recipe/rpg; start your own script with bash")
    hint = f"; {near}" if (near := did_you_mean(name, known, 0.3)) else ""
    raise UserError(f"{script}: no launch script has this name; `rpg list --all` prints them{hint}")
