"""The configuration of a run: overrides, composed, compared with the script's name, resolved, without secrets.

verl, torch and Ray are not imported: a dry run takes a second.
"""

import importlib.util
import math
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from rpg.checks import machine, secrets, verl_version
from rpg.checks.check import ABSENT, Diagnostic, Refused, Run, leaves
from rpg.launching.overrides import BadSetting, check_text, override
from rpg.launching.own_reward import set_own_reward
from rpg.launching.scripts import RECIPE, Script, home
from rpg.methods import names
from rpg.verl_plugin.version import INSTALL

CONFIG_DIR = RECIPE.resolve() / "config"
ENGINES = {"cpu": "rpg_shared_memory"}  # what takes weights to rollouts with devices of their own, by trainer.device
TEXTS = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "RPG_HOME")  # variables that it takes as text


def configured(overrides: list[str], notes: list[str]) -> Run:
    """The resolved configuration of a run, as DRY_RUN=1 prints it.

    notes: gets what the user should know: that overrides contradict the script's name.

    Raises:
        BadSetting: an override or an environment variable that cannot be read, a configuration that cannot be made.
        Refused: another verl, a variable that holds something else than it is for, a secret in the configuration.
    """
    for early in (machine.environment_variables, verl_version.verl_version):
        if found := [diagnostic for diagnostic in early(Run({})) if diagnostic.level == "error"]:
            raise Refused(found)
    for variable in TEXTS:
        check_text(variable, os.environ.get(variable, ""))
    try:
        config = compose_config(overrides)
        check_sections(config)
        set_own_reward(config, overrides, notes)
        compare_with_name(config, notes)
        run = resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        raise BadSetting(f"in the configuration: {error}{cause}") from error
    if found := list(secrets.secrets(run)):  # before anything else may show a value
        raise Refused(found)
    return run


def of_script(script: Script, overrides: list[str]) -> Run:
    """The configuration that a launch script would run with these overrides. Raises ValueError as `configured` does."""
    return configured([override("rpg.script", script.name), *script.overrides, *overrides], [])


def check_sections(config: DictConfig) -> None:
    """Raise Refused where the sections that are read before the checks are no sections."""
    held: dict[str, Any] = OmegaConf.to_container(config, resolve=False)  # type: ignore[assignment]
    if found := [
        Diagnostic(name, held.get(name, ABSENT), "must be a mapping", f"set its keys one by one, as {name}.KEY=VALUE")
        for name in ("trainer", "rpg")
        if not isinstance(held.get(name), dict)
    ]:
        raise Refused(found)


def compare_with_name(config: DictConfig, notes: list[str]) -> None:
    """Note where config contradicts its launch script's name, and give the run a name of its own.

    A name that the user gave by trainer.experiment_name stays.
    """
    script = config.rpg.script
    if not isinstance(script, str):
        return
    try:
        found = names.differences(names.parse(script), config)
    except names.UnknownName as error:
        notes.append(f"note: {error}; nothing was compared with it")
        return
    if not found:
        return
    if config.trainer.experiment_name == script:
        config.trainer.experiment_name = names.custom_name(script, found)
    notes.append(f"warning: overrides contradict the name {script}; the run is called {config.trainer.experiment_name}")
    notes += [f"  {key} = {actual} (the name says {said})" for key, (said, actual) in found.items()]


def resolve(config: DictConfig) -> Run:
    """A configuration without interpolations.

    Raises OmegaConfBaseException naming the key it fails at, BadSetting for text that would become an interpolation.
    verl leaves keys of parts that are switched off at ???, so those of a run are asked for one by one.
    """
    if config.trainer.experiment_name is None:
        raise MissingMandatoryValue("trainer.experiment_name: give the run a name")
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    for key, value in leaves(plain, into_lists=True):
        if isinstance(value, str):
            check_text(key, value)
    return Run(plain)


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
    OmegaConf.register_new_resolver("rpg.home", lambda: os.environ.get("RPG_HOME", str(home())), replace=True)
    OmegaConf.register_new_resolver("rpg.files", files, replace=True)
    OmegaConf.register_new_resolver("rpg.detected_memory", detected_memory, replace=True)
    OmegaConf.register_new_resolver("rpg.by_memory", by_memory, replace=True)
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


def detected_memory() -> float:
    """GB of this machine's smallest GPU: GPU_MEMORY_GB, else what nvidia-smi reports, else 24."""
    if text := os.environ.get("GPU_MEMORY_GB"):
        return float(text)
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
        return round(min(float(line) for line in done.stdout.splitlines()) * 2**20 / 1e9, 1)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 24


def by_memory(memory: float, *values: Any) -> Any:
    """The value for a GPU of so many GB, of those for 24, 48 and 80."""
    return values[(memory >= 48) + (memory >= 80)]


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

    variable: of a path as it stands, or of a YAML list [a,b] of paths, quoted where they hold a comma.
    """
    text = os.environ.get(variable)
    if text is None or not (text.startswith("[") and text.endswith("]")):
        return otherwise if text is None else text
    try:
        names: Any = yaml.load(text, yaml.BaseLoader)  # every scalar is a text
    except yaml.YAMLError:
        names = [None]
    if not all(isinstance(name, str) and name for name in names):
        raise BadSetting(f"{variable}={text}: not a list of files; write [a.parquet,'b, c.parquet']")
    return names
