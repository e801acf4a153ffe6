"""Launch scripts by name: a script is a name and a list of Hydra overrides, read from its file."""

import difflib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

RECIPE = Path(__file__).parents[1] / "recipe"  # in a checkout a link to recipe/rpg
SIZES = ("7b", "4b", "1gpu", "cpu")
# The words that a script may hold beside the path of launch.sh, its own name, overrides and "$@"
AROUND = frozenset({"exec", "bash", "&&", "set", "-e", "-euo", "pipefail", "script=$(readlink", "-f", "$0)"})
EXPANDED = re.compile(r"[$`;&|<>]")


class NotRead(ValueError):
    """No such script, or one whose overrides cannot be read from its text; the message has a remedy."""


@dataclass(frozen=True)
class Script:
    """What a launch script starts.

    Attributes:
        name: of the run: the file's, without run_ and .sh.
        overrides: Hydra's, as they stand in the script.
    """

    name: str
    path: Path
    overrides: tuple[str, ...]


def home() -> Path:
    """The directory that holds data/ and runs/: the checkout, or the current directory for an installed package."""
    recipe = RECIPE.resolve()
    return recipe.parents[1] if recipe.parts[-2:] == ("recipe", "rpg") else Path.cwd()


def paths() -> dict[str, Path]:
    """Every launch script of the recipe by its name."""
    files = [path for size in SIZES for path in sorted((RECIPE / size).glob("run_*.sh"))]
    return {path.stem.removeprefix("run_"): path for path in files}


def find(script: str | Path) -> Script:
    """The script of this name (`dapo_7b`, `run_dapo_7b.sh`, `7b/run_dapo_7b.sh`) or path. Raises NotRead."""
    path, known = Path(script), paths()
    if path.is_file():
        return read(path)
    name = path.name.removeprefix("run_").removesuffix(".sh")
    if name in known and path.parent.name in ("", *SIZES):
        return read(known[name])
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    raise NotRead(f"{script}: no such file, and no script of this name; did you mean {near[0]}?" if near else
                  f"{script}: no such file, and no script of this name")  # fmt: skip


def read(path: Path) -> Script:
    """A script from its text: one command, `launch.sh NAME OVERRIDE... "$@"`. Raises NotRead for any other shell code.

    As launch.sh does, "$script" is the file behind links and "$0" the path as it was given.
    """
    remedy = f"give a name of recipe/rpg and overrides instead, or DRY_RUN=1 bash {path} to see its configuration"
    try:
        words = shlex.split(path.read_text().replace("\\\n", " "), comments=True)
        at = next(number for number, word in enumerate(words) if word.rpartition("/")[2] == "launch.sh")
        before, own, overrides, last = words[:at], words[at + 1], words[at + 2 : -1], words[-1]
    except (OSError, ValueError, StopIteration, IndexError) as error:
        raise NotRead(f"{path}: not a command of launch.sh ({error or 'it is not called'}); {remedy}") from error
    strange = [word for word in before if word not in AROUND]
    strange += [word for word in overrides if EXPANDED.search(word)] + [last] * (last != "$@")
    if strange:
        raise NotRead(f"{path}: has shell code that only bash can read ({strange[0]}); {remedy}")
    called = {"$script": path.resolve().name, "$0": path.name}.get(own, own)
    return Script(called.rpartition("/")[2].removesuffix(".sh").removeprefix("run_"), path, tuple(overrides))
