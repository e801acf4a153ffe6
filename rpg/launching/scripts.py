"""Launch scripts by name: a script is a name and a list of Hydra overrides, read from its file."""

import difflib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

RECIPE = Path(__file__).parents[1] / "recipe"  # in a checkout a link to recipe/rpg
SIZES = ("7b", "4b", "1gpu", "cpu")
# words that a script may contain besides the path of launch.sh, its name, overrides and "$@"
KNOWN_WORDS = frozenset({"exec", "bash", "&&", "set", "-e", "-euo", "pipefail", "script=$(readlink", "-f", "$0)"})
SHELL_CODE = re.compile(r"[$`;&|<>]")


class NotRead(ValueError):
    """An unknown script, or one whose overrides cannot be read from its text; the message has a remedy."""


@dataclass(frozen=True)
class Script:
    """The content of a launch script.

    Attributes:
        name: the run's name, which is the file's without run_ and .sh.
        overrides: Hydra's, as written in the script.
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
    files = [path for size in SIZES for path in sorted((RECIPE / size).glob("run_*.sh"))]
    return {_name(path.name): path for path in files}


def _name(file: str) -> str:
    return file.removeprefix("run_").removesuffix(".sh")


def find(script: str | Path) -> Script:
    """Return the script of this name (`dapo_7b`, `run_dapo_7b.sh`, `7b/run_dapo_7b.sh`) or path. Raises NotRead."""
    path, known = Path(script), paths()
    if path.is_file():
        return read(path)
    name = _name(path.name)
    if name in known and path.parent.name in ("", *SIZES):
        return read(known[name])
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise NotRead(f"{script}: neither a file nor a name of recipe/rpg (rpg list){hint}")


def read(path: Path) -> Script:
    """Parse a script: one command, `launch.sh NAME OVERRIDE... "$@"`. Raises NotRead for other shell code.

    As in launch.sh, "$script" is the resolved path and "$0" the path as given.
    """
    remedy = f"pass a name of recipe/rpg and overrides instead, or print its configuration with DRY_RUN=1 bash {path}"
    try:
        words = shlex.split(path.read_text().replace("\\\n", " "), comments=True)
        at = next(number for number, word in enumerate(words) if word.rpartition("/")[2] == "launch.sh")
        before, own, overrides, last = words[:at], words[at + 1], words[at + 2 : -1], words[-1]
    except (OSError, ValueError, StopIteration, IndexError) as error:
        raise NotRead(f"{path}: does not call launch.sh ({error or 'no such command'}); {remedy}") from error
    unknown = [word for word in before if word not in KNOWN_WORDS]
    unknown += [word for word in overrides if SHELL_CODE.search(word)] + [last] * (last != "$@")
    if unknown:
        raise NotRead(f"{path}: contains shell code that only bash can run ({unknown[0]}); {remedy}")
    name = {"$script": path.resolve().name, "$0": path.name}.get(own, own.rpartition("/")[2])
    return Script(_name(name), path, tuple(overrides))
