"""The user's own losses and estimators: actor_rollout_ref.model.external_lib=FILE.py is the only override they need."""

import ast
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from rpg.config.check import check
from rpg.config.rules import SOCKETS
from rpg.config.run_config import RunConfig
from rpg.config.settings import KEYS
from rpg.data.diagnostics import Diagnostic
from rpg.verl_plugin.external import FILE

EXTERNAL = KEYS["external_lib"]
OWN = "rpg.external_lib"


def set_external_lib(config: DictConfig) -> None:
    """Move the user's modules and files from verl's external_lib to rpg.external_lib, and keep ours in verl's key.

    verl's key takes one name or a list. verl could import modules only, and rejects a list in some of its processes;
    rpg.verl_plugin.external imports them all. Values of another type stay for the checks.
    """
    named = OmegaConf.select(config, EXTERNAL)
    names = [named] if isinstance(named, str) else list(named) if isinstance(named, ListConfig) else []
    stored = OmegaConf.select(config, OWN)
    modules = [*(stored if isinstance(stored, ListConfig) else []), *(name for name in names if name != SOCKETS)]
    if not modules or not all(isinstance(name, str) for name in modules):
        return
    if names and names != [SOCKETS]:
        OmegaConf.update(config, EXTERNAL, SOCKETS)
    OmegaConf.update(config, OWN, [*dict.fromkeys(map(_absolute, modules))])


def _absolute(name: str) -> str:
    return os.path.abspath(os.path.expanduser(name)) if name.endswith(FILE) else name


def libraries(run: RunConfig) -> list[str]:
    """Return the names of the user's modules and files."""
    return run.get(OWN) or []


def source(name: str) -> Path | None:
    """Return the file of a module or file, or None without one."""
    if name.endswith(FILE):
        return Path(name) if Path(name).is_file() else None
    try:
        spec: Any = importlib.util.find_spec(name)  # imports its parents but not the module
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.has_location else None


@check("external library", "every file or module of external_lib exists and can be parsed", subject="files")
def external_library(run: RunConfig) -> Iterator[Diagnostic]:
    """Reads the source; `registered` imports it."""
    for name in libraries(run):
        path = source(name)
        if path is None:
            remedy = f"name a file that ends in {FILE}, valid on every node, or a module that Python finds"
            yield Diagnostic(EXTERNAL, name, "no such file or module", remedy)
            continue
        try:
            ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError) as error:
            yield Diagnostic(EXTERNAL, name, f"cannot be read as Python ({error})", "correct it")
