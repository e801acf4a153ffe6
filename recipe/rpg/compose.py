"""Compose the configuration of a run without importing verl, torch or Ray: a dry run takes a second."""

import importlib.util
import math
import os
import re
import shlex
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rpg.launching.overrides import BadSetting, override
from rpg.verl_plugin.version import INSTALL

CONFIG_DIR = Path(__file__).parent / "config"
ENGINES = {"cpu": "rpg_shared_memory"}  # what takes weights to rollouts with devices of their own, by trainer.device

# An element of a list of files: in quotes, or as it stands up to the next comma
ELEMENT = re.compile(r"""(?:^|,)\s*(?:('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|([^,]*?))\s*(?=,|$)""", re.DOTALL)


def verl_config_dir() -> Path:
    """Directory of verl's own configuration. Raises ModuleNotFoundError where verl is not installed."""
    spec = importlib.util.find_spec("verl")  # does not import it
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"verl is not installed; run bash scripts/setup.sh or {INSTALL}")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


def compose_config(overrides: list[str]) -> DictConfig:
    """The configuration `rpg_trainer` over verl's ppo_trainer with Hydra overrides applied, unresolved.

    Raises BadSetting for an override that Hydra cannot read, HydraException for one that it cannot apply.
    """
    for text in overrides:
        check_override(text)
    OmegaConf.register_new_resolver("rpg.files", files, replace=True)
    OmegaConf.register_new_resolver("rpg.sum", lambda *numbers: sum(numbers), replace=True)
    OmegaConf.register_new_resolver("rpg.product", lambda *numbers: math.prod(numbers), replace=True)
    OmegaConf.register_new_resolver("rpg.quotient", lambda whole, part: whole // part, replace=True)
    OmegaConf.register_new_resolver("rpg.checkpoint_engine", lambda device: ENGINES.get(device, "nccl"), replace=True)
    search = override("hydra.searchpath", [f"file://{verl_config_dir()}"])
    with initialize_config_dir(version_base=None, config_dir=str(CONFIG_DIR)):
        try:
            return compose("rpg_trainer", overrides=[search, *overrides])
        except (HydraException, OmegaConfBaseException):
            raise
        except (ValueError, TypeError, AttributeError, AssertionError) as error:  # Hydra's own, where it did not look
            raise BadSetting(f"{' '.join(overrides)}: Hydra cannot make a configuration of it: {error}") from error


def check_override(text: str) -> None:
    """Raise BadSetting where Hydra cannot read an override, or reads several values in it; says how to write it."""
    try:
        if not OverridesParser.create().parse_overrides([text])[0].is_sweep_override():
            return
        reason = "Hydra reads several values in it, one run each"
    except HydraException as error:
        reason = f"Hydra cannot read it ({str(error).splitlines()[0].strip()})"
    key, equal, value = text.partition("=")
    if not equal:
        raise BadSetting(f"{text}: {reason}; an override is KEY=VALUE, +KEY=VALUE or ~KEY")
    raise BadSetting(
        f"{text}: {reason}; quote the value for Hydra and again for the shell: "
        f"{shlex.quote(override(key, value))} (in a list each element)"
    )


def files(variable: str, otherwise: str | list[str]) -> str | list[str]:
    """The parquet files that an environment variable names, otherwise where it is not set.

    variable: of a path as it stands, or of a list [a,b], whose elements may be quoted as Hydra's are ('a,b').
    """
    text = os.environ.get(variable)
    if text is None or not (text.startswith("[") and text.endswith("]")):
        return otherwise if text is None else text
    inside = text[1:-1]
    parser = OverridesParser.create()
    names = [parser.parse_rule(q, "primitive").text if q else plain for q, plain in ELEMENT.findall(inside)]
    if inside.strip() and not all(names):
        raise BadSetting(f"{variable}={text}: an element without a name; write [a.parquet,b.parquet]")
    return names if inside.strip() else []
