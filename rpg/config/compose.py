"""Compose a run's configuration from a launch script and overrides, name the run, reject contradictions and secrets.

Does not import verl, torch or Ray: a dry run takes a second.
"""

import hashlib
import os
import re
from pathlib import Path, PurePath
from typing import Any

import hydra
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rpg import secrets
from rpg.config import resolvers
from rpg.config.run_config import RunConfig
from rpg.config.types import verl_config_dir
from rpg.config.user_code import library_settings, reward_settings
from rpg.config.verl_keys import KNOWN_AS, MODEL, OVERLONG, RAY, RESUMABLE
from rpg.diagnostics import ABSENT, BadSetting, Diagnostic, Refused, did_you_mean, shown
from rpg.dotted import below, leaves, value_at
from rpg.overrides import check_text, override, parse
from rpg.registry import scripts
from rpg.verl_plugin import version

CONFIG_DIR = scripts.RECIPE.resolve() / "config"
# Groups that are one decision: a typed override of a key that the chosen file sets must agree with it.
DECISIONS = ("method", "reference", "schedule", "pi_old")
KNOBS = ("rpg.divergence", "rpg.kl_coef", "rpg.kl_scope", "rpg.rho_bound")  # from which keys of a method follow
# verl's groups that choose an engine; our worker and reference are written for FSDP
FSDP_GROUPS = {"model_engine": "dp", "actor": "dp_actor", "ref": "dp_ref", "critic": "dp_critic"}
VARIABLES = {"MODEL_PATH": "model", "TRAIN_FILE": "dataset", "TEST_FILE": "dataset"}  # of the release: the group
RUN_NAME, PENALTY = "trainer.experiment_name", f"{OVERLONG}.enable"
LONGEST = 120  # characters of a run's name; in longer ones a digest replaces the overrides


def compose(name: str | None, overrides: list[str]) -> tuple[RunConfig, tuple[str, ...]]:
    """Return a run's resolved configuration and notes for the user.

    name: of the launch script, or a path of the user's own; None without one. overrides: Hydra's, the script's first.

    Raises:
        BadSetting: an override or environment variable cannot be read, or the configuration cannot be composed.
        Refused: overrides that contradict a decision, a secret in the configuration, a wrong type or range.
    """
    notes = [f"warning: {problem}" for problem in version.unsupported()]
    script = _script(name)
    own = list(script.overrides) if script else []
    typed = overrides[len(own) :] if overrides[: len(own)] == own else overrides
    if name and not script:  # a job of the user's script, which is not on the cluster: judged when it was submitted
        typed = []
    typed = [_by_path(text) for text in typed]
    overrides = [*overrides[: len(overrides) - len(typed)], *typed]
    parsed = [parse(text) for text in typed]
    keys = [one.key_or_group for one in parsed]
    for variable, group in VARIABLES.items():
        check_variable(variable, os.environ.get(variable))
        if os.environ.get(variable) and group in keys:
            notes.append(
                f"warning: {variable}={os.environ[variable]} acts, not that of {group}=; unset it if not meant"
            )
    first = [override("rpg.script", scripts.name_of(name))] if name else []
    try:
        config, choices = compose_config([*first, *overrides])
        for section in ("trainer", "rpg"):
            if not isinstance(config.get(section), DictConfig):
                raise BadSetting(f"{section}: must be a mapping; set its keys one by one, as {section}.KEY=VALUE")
        if contradictions := contradicting(config, choices, [*first, *overrides], parsed):
            raise Refused(contradictions)
        _refuse_ineffective_context(config, parsed)
        plain: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
        reward = reward_settings(plain, keys)
        if reward.get(PENALTY) is False:
            notes.append(f"note: {PENALTY}=false with a reward function of your own; {PENALTY}=true adds the penalty")
        change(config, {**reward, **library_settings(plain)})
        if RUN_NAME not in keys:
            change(config, {RUN_NAME: run_name(config.rpg.script, parsed)})
        resolved = resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise _bad_configuration(error) from error
    sections = ("rpg.env", RAY, f"{RAY}.runtime_env.env_vars")
    if diagnostics := list(secrets.in_configuration(resolved, sections)):  # before anything else may show a value
        raise Refused(diagnostics)
    return RunConfig(resolved), tuple(notes)


def of_script(script: scripts.Script, overrides: list[str]) -> RunConfig:
    """Return the configuration of a launch script with these overrides. Raises ValueError as `compose` does."""
    return compose(script.name, [*script.overrides, *overrides])[0]


def _script(name: str | None) -> scripts.Script | None:
    """Return the launch script of this name or path, or None: a job on a cluster has none of the user's."""
    known = scripts.paths()
    if name in known:
        return scripts.read(known[name])
    return scripts.read(Path(name)) if name and Path(name).is_file() else None


def _by_path(text: str) -> str:
    """Return `model=/models/mine` as an override of the model's path: a value with a / is no entry of a group."""
    key, _, value = text.partition("=")
    return override(f"{MODEL}.path", value.strip("'\"")) if key == "model" and "/" in value else text


def run_name(script: str | None, typed: list[Override]) -> str:
    """Return a run's name: its script and the typed overrides that a resume may not change, as key=value,..."""
    parts = {}
    for one in typed:
        if not below(one.key_or_group, RESUMABLE):
            value = "" if one.is_delete() else "-".join(PurePath(part).name for part in shown(one.value()).split(","))
            label = one.key_or_group.removesuffix(".path").rpartition(".")[2]
            parts[label] = f"{label}={value}"
    suffix = [re.sub(r"[^\w.=+-]+", "-", parts[key]).strip("-") for key in sorted(parts)]
    name = ",".join([*([script] if script else []), *suffix]) or "rpg"
    if len(name) > LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{(script or name)[: LONGEST - 13]},{digest}"
    return name


def contradicting(
    config: DictConfig, choices: dict[str, str | None], overrides: list[str], typed: list[Override]
) -> list[Diagnostic]:
    """Return the typed overrides that contradict a decision, or set a knob from which nothing follows.

    A group without a choice decides that its keys keep the values that they have without it; method=null decides
    nothing. Equal values pass, so that a frozen configuration loads again.
    """
    keys = {one.key_or_group for one in typed}
    sources: dict[str, str] = {}  # key -> the group and entry that decide it
    for group in DECISIONS:
        choice = choices.get(group)
        files = [CONFIG_DIR / group / f"{choice}.yaml"] if choice else [*(CONFIG_DIR / group).glob("*.yaml")]
        for file in files if choice or group != "method" else []:
            sources |= dict.fromkeys(_decided(file) & keys, f"{group}={choice}" if choice else f"{group}=...")
    plain = config
    if sources:
        plain, _ = compose_config([text for text in overrides if parse(text).key_or_group not in sources])
    found = []
    for key, source in sources.items():
        wanted, given = OmegaConf.select(plain, key), OmegaConf.select(config, key)
        if wanted != given:
            knob = KNOB.fullmatch(str(value_at(OmegaConf.to_container(plain), key)))
            message = f"{knob[1] if knob else source} makes it {shown(wanted)}"
            remedy = f"set {knob[1]}" if knob else f"choose another {source.partition('=')[0]}="
            if source.startswith("method=") and not knob:
                remedy += "; method=null decides nothing"
            if source.endswith("..."):
                message, remedy = f"is {shown(wanted)} without a choice of {source}", f"choose {source}, which sets it"
            found.append(Diagnostic(key, given, message, remedy))
    raw = [str(value) for _, value in leaves(OmegaConf.to_container(plain))]
    for knob in KNOBS:
        if knob in keys and not any(f"${{{knob}}}" in text for text in raw):
            message = f"has no effect with method={choices.get('method')}: nothing follows from it"
            found.append(
                Diagnostic(knob, OmegaConf.select(config, knob), message, "remove it, or choose another method")
            )
    return found


KNOB = re.compile(r"\$\{(rpg\.[\w.]+)\}")


def _decided(file: Path) -> set[str]:
    """Return verl's keys that a group's file sets by itself or from our section; what follows from verl's is free."""
    text = file.read_text()
    package = re.search(r"@package (\S+)", text)
    prefix = "" if package and package[1] == "_global_" else f"{package[1] if package else file.parent.name}."
    content = OmegaConf.to_container(OmegaConf.load(file))
    return {
        key
        for name, value in leaves(content)
        if not below(key := f"{prefix}{name}", ["rpg", "defaults"])
        and ("${" not in str(value) or KNOB.search(str(value)))
    }


def _refuse_ineffective_context(config: DictConfig, typed: list[Override]) -> None:
    """Raise BadSetting for a typed context= whose length the data set's replaces."""
    length, chosen = "data.max_response_length", {one.key_or_group: one.value() for one in reversed(typed)}
    chosen = dict(reversed(chosen.items()))  # in the order of the last of each
    file = CONFIG_DIR / "context" / f"{chosen.get('context')}.yaml"
    last = [key for key in chosen if key in ("context", "dataset")][-1:]
    if last == ["context"] and length not in chosen and file.is_file():
        wanted, actual = (OmegaConf.select(made, length) for made in (OmegaConf.load(file), config))
        if wanted != actual:
            message = f"is not read: the data set's {length}={actual} counts"
            raise BadSetting(f"context={chosen['context']}: {message}; set that key")


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


def resolve(config: DictConfig) -> dict[str, Any]:
    """Return a configuration without interpolations.

    Raises OmegaConfBaseException, which names the key, and BadSetting for text that would become an interpolation.
    """
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    for key, value in leaves(plain, into_lists=True):
        if isinstance(value, str):
            check_text(key, value)
    return plain


def compose_config(overrides: list[str]) -> tuple[DictConfig, dict[str, str | None]]:
    """Compose `rpg_trainer` and verl's ppo_trainer with Hydra overrides, unresolved; return it and the groups' choices.

    Raises BadSetting for an override that Hydra cannot read or apply, ModuleNotFoundError without verl.
    """
    parsed = [parse(text) for text in overrides]
    resolvers.register()
    for variable in ("CKPTS_DIR", "RPG_HOME", "NNODES"):
        check_variable(variable, os.environ.get(variable))
    for text, one in zip(overrides, parsed, strict=True):
        entries = entries_of(one.key_or_group)
        if entries and one.value() is not None and one.value() not in entries:
            near = did_you_mean(str(one.value()), entries)
            raise BadSetting(f"{text}: no such entry; {near and f'{near} '}There are {', '.join(entries)}")
        fsdp = FSDP_GROUPS.get(one.key_or_group)
        if fsdp and one.value() != fsdp:
            message = f"must be {fsdp}: our worker and reference are written for FSDP"
            raise BadSetting(f"{text}: {message}; for other engines use plain verl (docs/plain_verl.md)")
    # Hydra takes a group out by ~GROUP
    overrides = [
        f"~{one.key_or_group}" if one.value() is None and (CONFIG_DIR / one.key_or_group).is_dir() else text
        for text, one in zip(overrides, parsed, strict=True)
    ]
    search = override("hydra.searchpath", [f"file://{verl_config_dir()}"])
    with hydra.initialize_config_dir(version_base=None, config_dir=str(CONFIG_DIR)):
        try:
            config = hydra.compose("rpg_trainer", overrides=[search, *overrides], return_hydra_config=True)
        except ConfigCompositionException as error:
            known = known_keys(hydra.compose("rpg_trainer", overrides=[search]))
            raise _unknown(overrides, known) or _bad_configuration(error) from error
        except (HydraException, OmegaConfBaseException, ValueError, TypeError, AttributeError, AssertionError) as error:
            raise _bad_configuration(error) from error
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    return config, choices


def entries_of(group: str) -> list[str]:
    """Return the values that a group of the recipe takes; none for another key."""
    return sorted(file.stem for file in (CONFIG_DIR / group).glob("*.yaml"))


def _unknown(overrides: list[str], known: list[str]) -> BadSetting | None:
    """Return the refusal of the first override whose group or key does not exist, with the nearest name."""
    for text in overrides:
        one = parse(text)
        if not one.is_add() and one.key_or_group not in known:
            key = one.key_or_group
            near = f"did you mean {KNOWN_AS[key]}?" if key in KNOWN_AS else did_you_mean(key, known)
            return BadSetting(f"{text}: no such setting or group; {near or '`rpg train --help` lists the groups'}")
    return None


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
