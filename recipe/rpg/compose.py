"""Compose the configuration of a run without importing verl, torch or Ray: a dry run takes a second."""

import importlib.util
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

CONFIG_DIR = Path(__file__).parent / "config"


def verl_config_dir() -> Path:
    """Directory of verl's own configuration. Raises ModuleNotFoundError where verl is not installed."""
    spec = importlib.util.find_spec("verl")  # does not import it
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("verl is not installed; run bash scripts/setup.sh or pip install verl==0.9.1")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


def compose_config(overrides: list[str]) -> DictConfig:
    """The configuration `rpg_trainer` over verl's ppo_trainer with Hydra overrides applied, unresolved."""
    with initialize_config_dir(version_base=None, config_dir=str(CONFIG_DIR)):
        return compose("rpg_trainer", overrides=[f"hydra.searchpath=[file://{verl_config_dir()}]", *overrides])
