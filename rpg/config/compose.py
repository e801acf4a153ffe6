"""Compose and resolve a run's configuration, compare it with the script's name, and reject secrets.

Does not import verl, torch or Ray: a dry run takes a second.
"""

import hashlib
import os
from pathlib import PurePath
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from rpg import secrets
from rpg.config import resolvers
from rpg.config.keys import KEYS, KNOWN_AS, ROWS
from rpg.config.run_config import RunConfig, verl_config_dir
from rpg.config.user_code import is_ours, library_settings, reward_settings
from rpg.diagnostics import ABSENT, BadSetting, Refused, did_you_mean, shown
from rpg.dotted import leaves
from rpg.overrides import check_text, in_shell, key_of, override
from rpg.registry import scripts
from rpg.registry.recipe import RECIPE, Script
from rpg.verl_plugin import version

CONFIG_DIR = RECIPE.resolve() / "config"
# verl's groups that choose an engine
FSDP_GROUPS = {"model_engine": "dp", "actor": "dp_actor", "ref": "dp_ref", "critic": "dp_critic"}
VARIABLES = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "RPG_HOME", "NNODES")  # read by the configuration
COMPUTES = {  # as cpu_dtype chose
    "bfloat16": ["note: computes in bfloat16, which this processor multiplies; the weights stay in float32"],
    "float32": ["note: computes in float32, as this processor does not multiply in bfloat16 (AMX, AVX512-BF16)"],
}
LONGEST = 120  # characters of a run's name; in longer ones, a digest replaces the overrides


def compose(name: str | None, overrides: list[str]) -> tuple[RunConfig, tuple[str, ...]]:
    """Return a run's resolved configuration and notes for the user.

    name: of the launch script, or None. overrides: Hydra's, the script's own first.

    Raises:
        BadSetting: an override or environment variable cannot be read, or the configuration cannot be composed.
        Refused: another verl, a secret in the configuration, a wrong type or range.
    """
    notes = [f"warning: {problem}" for problem in version.unsupported()]
    keys = [key_of(text) for text in overrides]
    for variable, group in (("MODEL_PATH", "model"), ("TRAIN_FILE", "dataset"), ("TEST_FILE", "dataset")):
        if os.environ.get(variable) and keys.count(group) > 1:  # the script's own, and the user's
            notes.append(
                f"warning: {variable}={os.environ[variable]} acts, not that of {group}=; unset it if not meant"
            )
    for variable in VARIABLES:
        check_variable(variable, os.environ.get(variable))
    try:
        config = compose_config(overrides if name is None else [override("rpg.script", name), *overrides])
        for section in ("trainer", "rpg"):
            if not isinstance(config.get(section), DictConfig):
                raise BadSetting(f"{section}: must be a mapping; set its keys one by one, as {section}.KEY=VALUE")
        plain: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
        reward = reward_settings(plain, keys)
        if KEYS["overlong"] in reward:
            path, key = OmegaConf.select(config, KEYS["reward"]), KEYS["overlong"]
            notes.append(f"note: {key}=false, as the reward function is {path}; {key}=true adds the overlong penalty")
        refuse_ineffective_context(overrides, config)
        change(config, {**reward, **library_settings(plain)})
        about_the_name = rename(config)
        resolved = resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise _bad_configuration(error) from error
    if diagnostics := list(
        secrets.in_configuration(resolved, [KEYS[name] for name in ("env", "ray", "ray_env")])
    ):  # before anything else may show a value
        raise Refused(diagnostics)
    run = RunConfig(resolved)
    notes += COMPUTES.get(run.settings.compute_dtype or "", []) if run.settings.device == "cpu" else []
    return run, (*notes, *about_the_name)


def refuse_ineffective_context(overrides: list[str], config: DictConfig) -> None:
    """Raise BadSetting for a context= behind a dataset= (a script's own, or the user's) that sets another length."""
    named = ("context", "dataset", KEYS["response"])
    chosen = [parsed for parsed in map(parse, overrides) if parsed.key_or_group in named]
    if not chosen or chosen[-1].key_or_group != "context" or len({one.key_or_group for one in chosen}) == 1:
        return
    file, length = CONFIG_DIR / "context" / f"{chosen[-1].value()}.yaml", OmegaConf.select(config, KEYS["response"])
    if file.is_file() and length != OmegaConf.select(OmegaConf.load(file), KEYS["response"]):
        message = f"is not read: the data set's {KEYS['response']}={length} counts"
        raise BadSetting(f"context={chosen[-1].value()}: {message}; set {KEYS['response']}")


def of_script(script: Script, overrides: list[str]) -> RunConfig:
    """Return the configuration of a launch script with these overrides. Raises ValueError as `compose` does."""
    return compose(script.name, [*script.overrides, *overrides])[0]


def check_variable(name: str, text: str | None) -> None:
    """Raise BadSetting for a variable that is empty or whose text a configuration cannot hold."""
    if text is not None and not text.strip():
        raise BadSetting(f"{name} is set but empty; give it a value, or unset it")
    check_text(name, text or "")


def change(config: DictConfig, changes: dict[str, Any]) -> None:
    """Set these values by dotted key; ABSENT removes a key."""
    for key, value in changes.items():
        if value is ABSENT:
            section, _, name = key.rpartition(".")
            with open_dict(holder := OmegaConf.select(config, section)):
                holder.pop(name)
        else:
            OmegaConf.update(config, key, value, force_add=True)


def rename(config: DictConfig) -> list[str]:
    """Rename the run where its configuration contradicts its launch script's name; return notes about that.

    A name that the user gave by trainer.experiment_name stays.
    """
    script = OmegaConf.select(config, KEYS["script"])
    if not isinstance(script, str):
        return []
    try:
        name = scripts.parse(script)
    except scripts.UnknownName as error:
        return [f"note: {error}; the configuration was not compared with it"]
    differences = contradictions(name, config)
    if not differences:
        return []
    run_name = OmegaConf.select(config, KEYS["run_name"])
    outcome = f"the run keeps its name {run_name}"
    if run_name == script:
        run_name = custom_name(script, differences)
        outcome = f"run renamed to {run_name}"
        change(config, {KEYS["run_name"]: run_name})
    notes = [f"warning: overrides contradict the script name {script}; {outcome}"]
    return notes + [
        f"  {key} = {shown(value)} (the name says {shown(expected)})" for key, (expected, value) in differences.items()
    ]


def contradictions(name: scripts.ScriptName, config: DictConfig) -> dict[str, tuple[Any, Any]]:
    """Return where a configuration contradicts a launch script's name: key -> (value by the name, value in config).

    A model is compared by the last part of its path, so that a local copy is the same model; MODEL_PATH and what
    reward_settings changes contradict no name.
    """
    stands_for, found = scripts.stands_for(name), {}
    own_reward = not is_ours(OmegaConf.select(config, KEYS["reward"]))
    if path := os.environ.get("MODEL_PATH"):
        stands_for["model"] = path
    for row in ROWS.values():
        expected = stands_for.get(row.name, row.named)
        if expected is ABSENT or (name.size == "cpu" and row.name in scripts.NOT_SAID_ON_A_CPU):
            continue
        actual = OmegaConf.select(config, row.key, default=row.named)
        if row.name == "model" and PurePath(str(expected)).name == PurePath(str(actual)).name:
            continue
        if own_reward and (row.name, actual) in (("overlong", False), ("judge", None)):
            continue
        if row.name == "ahead_colocated" and stands_for["schedule"] == "sync":
            continue
        if expected != actual:
            found[row.key] = (expected, actual)
    return found


def custom_name(text: str, differences: dict[str, tuple[Any, Any]]) -> str:
    """Return the name of a run whose settings contradict its script's name: NAME-custom-key=value,..."""
    parts = (f"{key.split('.')[-1]}={PurePath(str(actual)).name}" for key, (_, actual) in differences.items())
    suffix = ",".join(parts)
    if len(text) + len(suffix) > LONGEST:
        suffix = hashlib.sha256(suffix.encode()).hexdigest()[:12]
    return f"{text}-custom-{suffix}"


def resolve(config: DictConfig) -> dict[str, Any]:
    """Return a configuration without interpolations.

    Raises OmegaConfBaseException, which names the key, and BadSetting for text that would become an interpolation.
    Keys that verl leaves at ??? stay missing; only the run's name is required.
    """
    if OmegaConf.select(config, KEYS["run_name"]) is None:
        raise MissingMandatoryValue(f"{KEYS['run_name']}: give the run a name")
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    for key, value in leaves(plain, into_lists=True):
        if isinstance(value, str):
            check_text(key, value)
    return plain


def compose_config(overrides: list[str]) -> DictConfig:
    """Compose `rpg_trainer` and verl's ppo_trainer with Hydra overrides, unresolved.

    Raises BadSetting for an override that Hydra cannot read or apply, ModuleNotFoundError without verl.
    """
    parsed = [parse(text) for text in overrides]
    resolvers.register()
    for text, parsed_override in zip(overrides, parsed, strict=True):
        if parsed_override.key_or_group.startswith(("hydra.", "hydra/")):
            raise BadSetting(f"{text}: has no effect, as Hydra's launcher does not start the run; remove it")
        group, is_null = parsed_override.key_or_group, parsed_override.value() is None
        if is_null and not parsed_override.is_delete() and (CONFIG_DIR / group).is_dir():
            raise BadSetting(f"{text}: Hydra takes no null for a group; leave {group}= out")
        if not isinstance(parsed_override.value(), str | list) and (entries := entries_of(group)):
            raise no_entry(text, parsed_override, entries)  # Hydra's message about a number names no group
        fsdp = FSDP_GROUPS.get(group)
        if fsdp and parsed_override.value() != fsdp:
            message = f"must be {fsdp}: our worker and reference are written for FSDP"
            raise BadSetting(f"{text}: {message}; for other engines use plain verl (docs/plain_verl.md)")
    search = override("hydra.searchpath", [f"file://{verl_config_dir()}"])
    with hydra.initialize_config_dir(version_base=None, config_dir=str(CONFIG_DIR)):
        try:
            return hydra.compose("rpg_trainer", overrides=[search, *overrides])
        except ConfigCompositionException as error:
            known = known_keys(hydra.compose("rpg_trainer", overrides=[search]))
            for text, parsed_override in zip(overrides, parsed, strict=True):
                entries = entries_of(parsed_override.key_or_group)
                if entries and parsed_override.value() not in entries:
                    raise no_entry(text, parsed_override, entries) from error
                if not parsed_override.is_add() and parsed_override.key_or_group not in known:
                    key = parsed_override.key_or_group
                    near = f"did you mean {KEYS[KNOWN_AS[key]]}?" if key in KNOWN_AS else did_you_mean(key, known)
                    near = near or "`rpg train --help` lists the groups"
                    raise BadSetting(f"{text}: no such setting or group; {near}") from error
            raise _bad_configuration(error) from error
        except (HydraException, OmegaConfBaseException, ValueError, TypeError, AttributeError, AssertionError) as error:
            raise _bad_configuration(error) from error


def entries_of(group: str) -> list[str]:
    """Return the values that a group of the recipe takes; none for another key."""
    return sorted(file.stem for file in (CONFIG_DIR / group).glob("*.yaml"))


def no_entry(text: str, parsed_override: Override, entries: list[str]) -> BadSetting:
    """Return the error of an override that chooses none of a group's entries."""
    near = did_you_mean(str(parsed_override.value()), entries)
    return BadSetting(f"{text}: no such entry; {near and f'{near} '}There are {', '.join(entries)}")


def parse(text: str) -> Override:
    """Return Hydra's reading of one override. Raises BadSetting, which shows what to type in a shell."""
    key, equals, value = text.partition("=")
    if not key:
        raise BadSetting(f"{text}: has no key; write KEY=VALUE (a shell variable that is not set?)")
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
        names = leaf.split(".")
        keys += [".".join(names[:depth]) for depth in range(1, len(names) + 1)]
    return [*dict.fromkeys(keys)]


def _bad_configuration(error: Exception) -> BadSetting:
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return BadSetting(f"in the configuration: {error}{cause}")
