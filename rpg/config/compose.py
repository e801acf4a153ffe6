"""Compose and resolve a run's configuration, compare it with the script's name, and reject secrets.

Does not import verl, torch or Ray: a dry run takes a second.
"""

import importlib.util
import math
import os
from typing import Any

import hydra
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from rpg.config import machine, secrets, types
from rpg.config.check import Refused
from rpg.config.contradictions import custom_name, differences
from rpg.config.external_lib import set_external_lib
from rpg.config.gpu_host import visible
from rpg.config.overrides import BadSetting, check_text, in_shell, override
from rpg.config.own_reward import set_own_reward
from rpg.config.run_config import RunConfig, leaves
from rpg.registry import scripts
from rpg.registry.recipe import RECIPE, Script, home
from rpg.verl_plugin.version import INSTALL

CONFIG_DIR = RECIPE.resolve() / "config"
# verl's groups that choose an engine
FSDP_GROUPS = {"model_engine": "dp", "actor": "dp_actor", "ref": "dp_ref", "critic": "dp_critic"}
# what to write instead of an entry that one may look for
REMEDIES = {"method=deepseek_v32": "method=grpo_corrected has its KL term, and GRPO's advantages, mean and clip."}
PATHS = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "RPG_HOME")  # variables that end up in the configuration


def compose(name: str | None, overrides: list[str]) -> RunConfig:
    """Return a run's resolved configuration.

    name: of the launch script, or None. overrides: Hydra's, the script's own first.

    Raises:
        BadSetting: an override or environment variable cannot be read, or the configuration cannot be composed.
        Refused: another verl, a variable with a wrong value, a secret in the configuration.
    """
    for early in (machine.environment_variables, machine.verl_version):
        if errors := [diagnostic for diagnostic in early(RunConfig({})) if diagnostic.level == "error"]:
            raise Refused(errors)
    for variable in PATHS:
        check_text(variable, os.environ.get(variable, ""))
    notes: list[str] = []
    try:
        config = compose_config(overrides if name is None else [override("rpg.script", name), *overrides])
        for section in ("trainer", "rpg"):
            if not isinstance(config.get(section), DictConfig):
                raise BadSetting(f"{section}: must be a mapping; set its keys one by one, as {section}.KEY=VALUE")
        set_own_reward(config, overrides, notes)
        set_external_lib(config)
        compare_with_name(config, overrides, notes)
        run = resolve(config, tuple(notes))
    except (HydraException, OmegaConfBaseException) as error:
        raise _bad_configuration(error) from error
    if diagnostics := list(secrets.secrets(run)):  # before anything else may show a value
        raise Refused(diagnostics)
    return run


def of_script(script: Script, overrides: list[str]) -> RunConfig:
    """Return the configuration of a launch script with these overrides. Raises ValueError as `compose` does."""
    return compose(script.name, [*script.overrides, *overrides])


def compare_with_name(config: DictConfig, overrides: list[str], notes: list[str]) -> None:
    """Note where config contradicts its launch script's name, and rename the run.

    Keeps a name that the user gave by trainer.experiment_name. What set_own_reward sets is no contradiction.
    """
    script = config.rpg.script
    if not isinstance(script, str):
        return
    try:
        name = scripts.parse(script)
    except scripts.UnknownName as error:
        notes.append(f"note: {error}; the configuration was not compared with it")
        return
    script_overrides = scripts.overrides(name)
    if overrides == script_overrides:
        return
    expected = compose_config([override("rpg.script", script), *script_overrides])
    contradictions = differences(name, expected, config)
    if not contradictions:
        return
    trainer = config.trainer
    if trainer.experiment_name == script:
        trainer.experiment_name = custom_name(script, contradictions)
    notes.append(f"warning: overrides contradict the script name {script}; the run is called {trainer.experiment_name}")
    notes += [f"  {key} = {value} (the name says {named})" for key, (named, value) in contradictions.items()]


def resolve(config: DictConfig, notes: tuple[str, ...] = ()) -> RunConfig:
    """Return a configuration without interpolations, with these notes.

    Raises OmegaConfBaseException, which names the key, and BadSetting for text that would become an interpolation.
    Keys that verl leaves at ??? stay missing; only the run's name is required.
    """
    if config.trainer.experiment_name is None:
        raise MissingMandatoryValue("trainer.experiment_name: give the run a name")
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    for key, value in leaves(plain, into_lists=True):
        if isinstance(value, str):
            check_text(key, value)
    return RunConfig(plain, notes=notes)


def compose_config(overrides: list[str]) -> DictConfig:
    """Compose `rpg_trainer` and verl's ppo_trainer with Hydra overrides, unresolved.

    Raises BadSetting for an override that Hydra cannot read or apply, ModuleNotFoundError without verl.
    """
    parsed = [parse(text) for text in overrides]
    for name, function in RESOLVERS.items():
        OmegaConf.register_new_resolver(f"rpg.{name}", function, replace=True)
    verl = importlib.util.find_spec("verl")  # does not import verl
    if verl is None or not verl.submodule_search_locations:
        raise ModuleNotFoundError(f"verl is not installed; run bash scripts/setup.sh or {INSTALL}")
    for text, parsed_override in zip(overrides, parsed, strict=True):
        if parsed_override.key_or_group.startswith(("hydra.", "hydra/")):
            raise BadSetting(f"{text}: has no effect, as Hydra's launcher does not start the run; remove it")
        fsdp = FSDP_GROUPS.get(parsed_override.key_or_group)
        if fsdp and parsed_override.value() != fsdp:
            wrong = f"must be {fsdp}: our worker and reference are written for FSDP"
            raise BadSetting(f"{text}: {wrong}; for other engines use plain verl (docs/plain_verl.md)")
    search = override("hydra.searchpath", [f"file://{verl.submodule_search_locations[0]}/trainer/config"])
    with hydra.initialize_config_dir(version_base=None, config_dir=str(CONFIG_DIR)):
        try:
            return hydra.compose("rpg_trainer", overrides=[search, *overrides])
        except ConfigCompositionException as error:
            known = known_keys(hydra.compose("rpg_trainer", overrides=[search]))
            for text, parsed_override in zip(overrides, parsed, strict=True):
                entries = [file.stem for file in (CONFIG_DIR / parsed_override.key_or_group).glob("*.yaml")]
                if entries and parsed_override.value() not in entries:
                    near = REMEDIES.get(text) or types.did_you_mean(str(parsed_override.value()), entries)
                    raise BadSetting(f"{text}: no such entry; {near} There are {', '.join(sorted(entries))}") from error
                if not parsed_override.is_add() and parsed_override.key_or_group not in known:
                    near = (
                        types.did_you_mean(parsed_override.key_or_group, known) or "`rpg train --help` lists the groups"
                    )
                    raise BadSetting(f"{text}: no such setting or group; {near}") from error
            raise _bad_configuration(error) from error
        except (HydraException, OmegaConfBaseException, ValueError, TypeError, AttributeError, AssertionError) as error:
            raise _bad_configuration(error) from error


def parse(text: str) -> Override:
    """Return Hydra's reading of one override. Raises BadSetting, which shows what to type in a shell."""
    key, equals, value = text.partition("=")
    try:
        parsed = OverridesParser.create().parse_override(text)
    except HydraException as error:
        reason = f"Hydra cannot read it ({str(error).splitlines()[0].strip()})"
        if not equals:
            raise BadSetting(f"{text}: {reason}; write KEY=VALUE") from error
    else:
        if not parsed.is_sweep_override():
            return parsed
        reason = f"Hydra reads several values; a list is {key}=[{value}]"
    quoted = in_shell(override(key, value.strip("'\"")))
    raise BadSetting(f"{text}: {reason}; for a text Hydra needs quotes that the shell leaves in place: {quoted}")


def known_keys(config: DictConfig) -> list[str]:
    """Return every key that an override may set: groups, sections and settings of the configuration."""
    keys = [group.name for group in CONFIG_DIR.iterdir() if group.is_dir()]
    for leaf, _ in leaves(OmegaConf.to_container(config)):
        scripts = leaf.split(".")
        keys += [".".join(scripts[:depth]) for depth in range(1, len(scripts) + 1)]
    return [*dict.fromkeys(keys)]


def _bad_configuration(error: Exception) -> BadSetting:
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return BadSetting(f"in the configuration: {error}{cause}")


def files(variable: str, default: str | list[str]) -> str | list[str]:
    """Return the parquet files in an environment variable, or `default` if it is not set.

    variable: a variable with an unquoted path, or a YAML list [a,b] of paths; paths with a comma are quoted.
    """
    text = os.environ.get(variable)
    if text is None or not (text.startswith("[") and text.endswith("]")):
        return default if text is None else text
    try:
        paths: Any = yaml.load(text, yaml.BaseLoader)  # read every scalar as text
    except yaml.YAMLError:
        paths = [None]
    if not all(isinstance(path, str) and path for path in paths):
        raise BadSetting(f"{variable}={text}: not a list of files; write [a.parquet,'b, c.parquet']")
    return paths


def detected_memory() -> float:
    """Return the GB of the smallest visible GPU: GPU_MEMORY_GB, else what nvidia-smi reports, else 24."""
    if text := os.environ.get("GPU_MEMORY_GB"):
        return float(text)
    return round(min((gpu.memory for gpu in visible()), default=24e9) / 1e9, 1)


RESOLVERS = {  # ${rpg.NAME:...} in recipe/rpg/config
    "home": lambda: str(home()),
    "files": files,
    "detected_memory": detected_memory,
    "by_memory": lambda gb, *values: values[(gb >= 48) + (gb >= 80)],  # choose from the values for 24, 48 and 80 GB
    "sum": lambda *numbers: sum(numbers),
    "product": lambda *numbers: math.prod(numbers),
    "quotient": lambda whole, part: whole // part,
    # transfers weights to rollouts on separate devices
    "checkpoint_engine": lambda device: "rpg_socket" if device == "cpu" else "nccl",
}
