"""Compare the installed verl, vLLM, TransferQueue and Ray with what this project relies on.

python scripts/check_verl.py

Run it for a new version of verl. It prints one line per difference and exits with 1 if there are any. It checks that
all imports of our source exist, that our overrides take the parameters of the methods they override, that the lines of
tests/verl_plugin/verl_contract.yaml still exist, and that the keys set by the recipe are keys of verl.
"""

import ast
import importlib
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from pkgutil import resolve_name, walk_packages
from types import ModuleType
from typing import Any

import yaml
from omegaconf import OmegaConf

from rpg.config import types
from rpg.config.compose import compose_config, resolve
from rpg.dotted import value_at

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = ROOT / "tests/verl_plugin/verl_contract.yaml"
THEIRS = ("verl", "vllm", "transfer_queue", "ray")
VAR = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def imported() -> dict[str, str]:
    """Return every external import of our source with the file that imports it."""
    paths: dict[str, str] = {}
    for file in (file for folder in ("rpg", "recipe") for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            paths |= {name: str(file.relative_to(ROOT)) for name in names if name.split(".")[0] in THEIRS}
    return paths


def missing_imports() -> Iterator[str]:
    """Yield our imports that verl, vLLM, TransferQueue or Ray no longer have."""
    for path, file in sorted(imported().items()):
        try:
            resolve_name(path)
        except (ImportError, AttributeError) as error:
            yield f"{file} imports {path}: {error}"


def plugin_modules() -> dict[str, ModuleType | str]:
    """Import the plugin's modules; an error's text for those that this verl breaks."""
    import rpg.verl_plugin

    modules: dict[str, ModuleType | str] = {}
    for _, name, package in walk_packages(rpg.verl_plugin.__path__, "rpg.verl_plugin."):
        if not package and not name.endswith(("autoload", "preload.client", "preload.server", "preload.ray_ids")):
            try:
                modules[name] = importlib.import_module(name)
            except (ImportError, AttributeError) as error:
                modules[name] = str(error)
    return modules


def overrides() -> Iterator[tuple[type, str, Any, Any]]:
    """Yield each class of ours, the name of a method that it overrides, our method and theirs."""
    modules = [module for module in plugin_modules().values() if isinstance(module, ModuleType)]
    classes = {cls for module in modules for cls in vars(module).values() if isinstance(cls, type)}
    for cls in classes:
        order = [base for base in cls.__mro__ if base is not object]
        ours = [base for base in order if base.__module__.startswith("rpg.")]
        for theirs in (base for base in order if base.__module__.split(".")[0] in THEIRS):
            for base in ours:
                for name in vars(base).keys() & vars(theirs).keys():
                    if inspect.isfunction(vars(base)[name]) and inspect.isfunction(vars(theirs)[name]):
                        yield base, name, vars(base)[name], vars(theirs)[name]


def changed_signatures() -> Iterator[str]:
    """Yield methods whose parameters differ from the overridden ones; *args and **kwargs take any."""
    for module, error in plugin_modules().items():
        if isinstance(error, str):
            yield f"{module} cannot be imported, so that its methods were not compared: {error}"
    for cls, name, ours, theirs in overrides():
        mine, verls = (inspect.signature(function).parameters.values() for function in (ours, theirs))
        anything = any(p.kind in VAR for p in (*mine, *verls)) or (name == "__init__" and is_dataclass(cls))
        if not anything and [p.name for p in mine] != [p.name for p in verls]:
            yield f"{cls.__name__}.{name}{inspect.signature(ours)} overrides {name}{inspect.signature(theirs)}"


def changed_lines(contract: dict[str, list[str]]) -> Iterator[str]:
    """Yield lines of the contract that are no longer in the source of their object."""
    for path, lines in contract.items():
        try:
            found = resolve_name(path)
        except (ImportError, AttributeError) as error:
            yield f"{path} does not exist: {error}"
            continue
        source = _squeezed(textwrap.dedent(inspect.getsource(inspect.unwrap(found)))) if lines else ""
        yield from (f"{path} no longer says {line!r}" for line in lines if _squeezed(line) not in source)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def unknown_keys() -> Iterator[str]:
    """Yield settings of the recipe that verl lacks or has with another type."""
    from verl.utils.config import omega_conf_to_dataclass  # after main has chosen the platform

    config = resolve(compose_config(["rpg.script=x"])[0])
    yield from map(str, types.errors(config))
    for section in ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm"):
        try:
            omega_conf_to_dataclass(OmegaConf.create(value_at(config, section)))
        except Exception as error:  # noqa: BLE001  # Hydra's, OmegaConf's, and what verl asserts
            yield f"{section}: {error}"


def main() -> int:
    """Print the differences as they are found."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")  # verl chooses a platform when it is imported
    contract = yaml.safe_load(CONTRACT.read_text())
    parts = {
        "imports": missing_imports(),
        "signatures of overridden methods": changed_signatures(),
        "lines of the contract": changed_lines(contract),
        "settings": unknown_keys(),
    }
    total = 0
    for name, part in parts.items():
        count = 0
        print(f"{name}:", flush=True)
        try:
            for count, difference in enumerate(part, 1):  # noqa: B007
                print(f"  {difference}", flush=True)
        except Exception as error:  # noqa: BLE001 (another verl may fail in any way)
            count += 1
            print(f"  stopped by {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        print(f"  {count or 'no'} difference{'s' * (count != 1)}", flush=True)
        total += count
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
