"""Imports the user's own losses and estimators, which register with verl when they are imported.

The check before the start, the task runner and every training worker load what rpg.external_lib names.
"""

import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any

FILE = ".py"


@functools.cache  # once a process
def load(name: str) -> None:
    """Import a module, or a file by its absolute path, whose directory is put at the end of sys.path for neighbours.

    Raises:
        ValueError: it registers a loss under a name that is taken; verl would replace that loss without a word.
    """
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    before = dict(POLICY_LOSS_REGISTRY)
    if name.endswith(FILE):
        sys.path.append(str(Path(name).parent))
        spec: Any = importlib.util.spec_from_file_location(f"rpg_external_{Path(name).stem}", name)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        importlib.import_module(name)
    if taken := [loss for loss, function in before.items() if POLICY_LOSS_REGISTRY[loss] is not function]:
        POLICY_LOSS_REGISTRY.update(before)
        raise ValueError(f"it registers the loss {taken[0]!r}, which exists already; choose another name")
