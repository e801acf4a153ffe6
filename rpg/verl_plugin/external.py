"""Imports the user's own losses and estimators, which register with verl when they are imported.

The check before the start, the task runner and every training worker load what rpg.external_lib names.
"""

import importlib
import importlib.util
import sys
import zlib
from pathlib import Path
from typing import Any

FILE = ".py"


def load(name: str) -> None:
    """Import a module, or a file by its absolute path; once per process.

    The file's directory is put at the end of sys.path, so that it can import its neighbours.

    Raises:
        ValueError: it registers a loss under a name that is taken; verl would replace that loss without a word.
    """
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    path = Path(name)
    module = f"rpg_external_{path.stem}_{zlib.crc32(name.encode()):08x}" if name.endswith(FILE) else name
    if module in sys.modules:
        return
    before = dict(POLICY_LOSS_REGISTRY)
    try:
        if name.endswith(FILE):
            sys.path.append(str(path.parent))
            spec: Any = importlib.util.spec_from_file_location(module, path)
            sys.modules[module] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[module])
        else:
            importlib.import_module(module)
        if taken := [loss for loss, function in before.items() if POLICY_LOSS_REGISTRY[loss] is not function]:
            POLICY_LOSS_REGISTRY.update(before)
            raise ValueError(f"it registers the loss {taken[0]!r}, which exists already; choose another name")
    except BaseException:
        sys.modules.pop(module, None)
        raise
