"""Imports the user's own losses and estimators, which register with verl when they are imported.

`freeze` puts their names, rpg.external_lib, into a variable that all processes of the run inherit; `install` of
rpg.verl_plugin calls `load_all` in the task runner and in every worker.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path

VARIABLE = "RPG_EXTERNAL_LIB"  # a JSON list of names
FILE = ".py"


def load_all() -> None:
    """Import every library that the run names."""
    for name in json.loads(os.environ.get(VARIABLE, "[]")):
        load(name)


def load(name: str) -> None:
    """Import a module, or a file by its absolute path; once per process.

    The file's directory is put at the end of sys.path, so that it can import its neighbours.

    Raises:
        ValueError: it registers a loss under a name that is taken; verl would replace that loss without a word.
    """
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    module = _module_name(Path(name)) if name.endswith(FILE) else name
    if module in sys.modules:
        return
    before = dict(POLICY_LOSS_REGISTRY)
    try:
        _import_file(module, Path(name)) if name.endswith(FILE) else importlib.import_module(module)
        if taken := [loss for loss, function in before.items() if POLICY_LOSS_REGISTRY[loss] is not function]:
            POLICY_LOSS_REGISTRY.update(before)
            raise ValueError(f"it registers the loss {taken[0]!r}, which exists already; choose another name")
    except BaseException:
        sys.modules.pop(module, None)
        raise


def _module_name(path: Path) -> str:
    return f"rpg_external_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _import_file(module: str, path: Path) -> None:
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])
