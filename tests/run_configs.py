"""A valid configuration with changes, for tests of what reads one; composing takes half a second, once a process."""

import copy
import functools
from typing import Any

from rpg.config.compose import compose_config, resolve
from rpg.config.run_config import RunConfig
from rpg.dotted import put


@functools.cache
def _composed() -> dict[str, Any]:
    return resolve(
        compose_config(["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=t"])
    )


def run_config(changes: dict[str, Any] | None = None) -> RunConfig:
    """Return the toy run's configuration with these values by dotted key."""
    config = copy.deepcopy(_composed())
    for key, value in (changes or {}).items():
        put(config, key, value)
    return RunConfig(config)
