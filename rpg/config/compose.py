"""Compose a run's configuration from a launch script and overrides, name the run, reject contradictions and secrets.

Does not import verl, torch or Ray: a dry run takes a second.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

import hydra
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rpg import secrets
from rpg.config.run_config import RunConfig
from rpg.config.types import verl_config_dir
from rpg.config.verl_keys import MODEL, RESUMABLE, REWARD, ROLLOUT, TYPES
from rpg.diagnostics import Diagnostic, Refused, UserError, did_you_mean, shown
from rpg.dotted import below, leaves, shortest_end
from rpg.overrides import key_of, override, parse
from rpg.registry import scripts
from rpg.verl_plugin import resolvers, version

CONFIG_DIR = scripts.RECIPE.resolve() / "config"
# Groups that are one decision: a typed override of a key that the chosen file sets must agree with it.
DECISIONS = ("method", "reference", "schedule", "pi_old")
RECORDS = {"rpg.method": "method", "rpg.pi_old": "pi_old"}  # of a group's choice: they change nothing else
# from which verl's keys follow with some choices of a group
KNOBS = dict.fromkeys(("rpg.divergence", "rpg.kl_coef", "rpg.kl_scope", "rpg.rho_bound"), "method") | {
    REWARD: "judge", "rpg.data_dir": "dataset",
}  # fmt: skip
FOLLOWS = re.compile(r"\$\{(rpg\.[\w.]+)\}")
VARIABLES = {"MODEL_PATH": "model", "TRAIN_FILE": "dataset", "TEST_FILE": "dataset"}  # of the release: the group
# verl sets the first and does not read the second
NO_SWITCHES = ("transfer_queue.enable", f"{ROLLOUT}.multi_turn.enable")
RUN_NAME, LENGTH = "trainer.experiment_name", "data.max_response_length"
LONGEST = 120  # characters of a run's name; in longer ones a digest replaces the overrides


def compose(name: str | None, overrides: list[str]) -> tuple[RunConfig, tuple[str, ...]]:
    """Return a run's resolved configuration and notes for the user.

    name: of the launch script, or a path of the user's own; None without one. overrides: Hydra's, the script's first.

    Raises:
        UserError: an override or environment variable cannot be read, or the configuration cannot be composed.
        Refused: overrides that contradict a decision, a secret in the configuration, a wrong type or range.
    """
    version.require()
    notes = list[str]()
    scripted, typed = split(name, overrides)
    parsed = [parse(text) for text in typed]
    keys = [change.key_or_group for change in parsed]
    if replaced := replaced_by(typed, scripted):
        notes.append(f"note: the typed method or adapter replaces the script's {', '.join(replaced)}")
        scripted = [text for text in scripted if text not in replaced]
    for variable, group in VARIABLES.items():
        if os.environ.get(variable) and group in keys:
            notes.append(f"warning: {variable}={os.environ[variable]} replaces the value of {group}=")
    script = scripts.name_of(name) if name else None
    combined = [override("rpg.script", script), override(RUN_NAME, run_name(script, parsed)), *scripted, *typed]
    if REWARD in map(key_of, combined):
        combined.insert(0, "judge=own")
    try:
        config, choices = compose_config(combined)
        judged = parsed if {*keys} & {*DECISIONS, "judge"} else [*map(parse, scripted), *parsed]
        if contradictions := list(contradicting(config, choices, combined, judged)):
            raise Refused(contradictions)
        resolved = resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise _bad_configuration(error) from error
    if diagnostics := list(secrets.in_configuration(resolved)):  # before anything else may show a value
        raise Refused(diagnostics)
    return RunConfig(resolved), tuple(notes)


def of_script(script: scripts.Script, overrides: list[str]) -> RunConfig:
    """Return the configuration of a launch script with these overrides. Raises ValueError as `compose` does."""
    return compose(script.name, [*script.overrides, *overrides])[0]


def split(name: str | None, overrides: list[str]) -> tuple[list[str], list[str]]:
    """Return the script's own overrides, and those that were typed, with `model=/models/mine` as the model's path.

    The recipe's own act also if only the name was given, as to `python -m rpg.run NAME`.
    On a cluster a job of the user's script has no file: its overrides were judged when it was submitted.
    """
    known, path = scripts.paths(), Path(name or "")
    if name and name not in known and not path.is_file():
        return overrides, []
    scripted = list(scripts.read(known.get(name, path)).overrides) if name else []
    is_given = overrides[: len(scripted)] == scripted
    typed = overrides[len(scripted) :] if is_given else overrides
    return scripted if is_given or name in known else [], [_by_path(text) for text in typed]


def _by_path(text: str) -> str:
    key, _, value = text.partition("=")  # a value with a / is no entry of a group
    return override(f"{MODEL}.path", value.strip("'\"")) if key == "model" and "/" in value else text


def run_name(script: str | None, typed: list[Override]) -> str:
    """Return a run's name: its script and the typed overrides that a resume may not change, as key=value,..."""
    fixed = [change for change in typed if not below(change.key_or_group, RESUMABLE)]
    kept = {change.key_or_group.removesuffix(".path"): change for change in fixed}
    parts = []
    for key, change in kept.items():
        words = [] if change.is_delete() else shown(change.value()).strip("[]").split(",")
        value = "-".join(PurePath(part).name for part in words)
        parts.append(f"{shortest_end(key, [other for other in kept if other != key])}={value}")
    suffix = [re.sub(r"[^\w.=+-]+", "-", part).strip("-") for part in sorted(parts)]
    name = ",".join([*([script] if script else []), *suffix]) or "rpg"
    if len(name) > LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{(script or name)[: LONGEST - 13]},{digest}"
    return name


def contradicting(
    config: DictConfig, choices: dict[str, str | None], overrides: list[str], typed: list[Override]
) -> Iterator[Diagnostic]:
    """Yield the typed overrides that contradict a decision, a knob from which nothing follows, an unread context.

    Equal values pass, so that a frozen configuration loads again; method=null decides nothing.
    """
    keys = {change.key_or_group: change for change in typed}
    decided = {key: group for group in DECISIONS if choices.get(group) for key in _decided(group, choices)}
    sources = {key: group for key, group in (decided | RECORDS).items() if below(key, keys)}
    plain = config
    if sources:
        others = [text for text in overrides if not any(below(source, [key_of(text)]) for source in sources)]
        plain, _ = compose_config(others)
    unresolved = dict(leaves(OmegaConf.to_container(plain)))
    for key, group in sources.items():
        wanted, value = OmegaConf.select(plain, key), OmegaConf.select(config, key)
        if wanted != value:
            knob = FOLLOWS.fullmatch(str(unresolved.get(key)))
            remedy = f"choose another {group}=" + ("; method=null decides nothing" if group == "method" else "")
            source = knob[1] if knob else f"{group}={choices.get(group) or 'null'}"
            yield Diagnostic(key, value, f"{source} makes it {shown(wanted)}", f"set {knob[1]}" if knob else remedy)
    for knob, group in KNOBS.items():
        if knob in keys and not any(f"${{{knob}}}" in str(value) for value in unresolved.values()):
            message = f"has no effect with {group}={choices.get(group)}: no key follows from it"
            yield Diagnostic(knob, OmegaConf.select(config, knob), message, f"remove it, or choose another {group}")
    for key in keys:
        if below(key, ["critic"]):
            yield Diagnostic(key, OmegaConf.select(config, key), "is not read: no run has a critic", "remove it")
        elif switch := _switched_off(config, key, keys):
            message, remedy = f"is not read with {switch}=false", f"remove it, or set {switch}=true"
            yield Diagnostic(key, OmegaConf.select(config, key), message, remedy)
    if "context" in keys and LENGTH not in keys and (context := choices.get("context")):
        length = OmegaConf.select(OmegaConf.load(CONFIG_DIR / "context" / f"{context}.yaml"), LENGTH)
        if length != config.data.max_response_length:
            message = f"has no effect: the data set sets {LENGTH}={config.data.max_response_length}"
            yield Diagnostic("context", context, message, f"set {LENGTH}")


def _switched_off(config: DictConfig, key: str, typed: Iterable[str]) -> str | None:
    """Return the untyped key `enable` or `enabled` that is false in a section above a key, so that nothing reads it."""
    for section in accumulate(key.split(".")[:-1], "{}.{}".format):
        for switch in (f"{section}.enable", f"{section}.enabled"):
            if switch not in (*typed, *NO_SWITCHES) and OmegaConf.select(config, switch) is False:
                return switch
    return None


def replaced_by(typed: list[str], scripted: list[str]) -> list[str]:
    """Return a script's own overrides that the file of a typed method or adapter also sets, such as clip and rate."""
    stated = set[str]()
    for change in (parse(text) for text in typed if key_of(text) in ("method", "adapter") and text not in scripted):
        if (file := CONFIG_DIR / change.key_or_group / f"{change.value()}.yaml").is_file():
            content: Any = OmegaConf.to_container(OmegaConf.load(file))
            stated |= {group.removeprefix("override /") for entry in content.get("defaults", []) for group in entry}
            stated |= {key for key, _ in leaves(content)} - {"rpg.method"}
    return [text for text in scripted if key_of(text) in stated]


def _decided(group: str, choices: dict[str, str | None]) -> set[str]:
    """Return verl's keys that a group's file sets by itself or from our section; what follows from verl's is free."""
    file = CONFIG_DIR / group / f"{choices[group]}.yaml"
    package = re.search(r"@package (\S+)", file.read_text())
    prefix = "" if package is None or package[1] == "_global_" else f"{package[1]}."
    return {
        key
        for name, value in leaves(OmegaConf.to_container(OmegaConf.load(file)))
        if not below(key := f"{prefix}{name}", ["rpg", "defaults"])
        and ("${" not in str(value) or FOLLOWS.search(str(value)))
    }


def resolve(config: DictConfig) -> dict[str, Any]:
    """Return a configuration without interpolations. Raises OmegaConfBaseException, which names the key."""
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]


def compose_config(overrides: list[str]) -> tuple[DictConfig, dict[str, str | None]]:
    """Compose `rpg_trainer` and verl's ppo_trainer with Hydra overrides, unresolved; return it and the groups' choices.

    Raises UserError for an override that Hydra cannot read or apply, ModuleNotFoundError without verl.
    """
    resolvers.register()
    for variable in (*VARIABLES, "CKPTS_DIR", "RPG_HOME", "NNODES"):
        if (text := os.environ.get(variable)) is not None and not text.strip():
            raise UserError(f"{variable} is set but empty; give it a value, or unset it")
    accepted = []
    for text in overrides:
        group = (change := parse(text)).key_or_group
        entries = sorted(file.stem for file in (CONFIG_DIR / group).glob("*.yaml"))
        if entries and change.value() is not None and change.value() not in entries:
            raise UserError(f"{text}: no such entry; choose from {', '.join(entries)}")
        accepted.append(f"~{group}" if entries and change.value() is None else text)  # as Hydra takes a group out
    search = override("hydra.searchpath", [f"file://{verl_config_dir()}"])
    with hydra.initialize_config_dir(version_base=None, config_dir=str(CONFIG_DIR)):
        try:
            config = hydra.compose("rpg_trainer", overrides=[search, *accepted], return_hydra_config=True)
        except ConfigCompositionException as error:
            known = known_keys(hydra.compose("rpg_trainer", overrides=[search]))
            raise _unknown(accepted, known) or _bad_configuration(error) from error
        except (HydraException, OmegaConfBaseException, ValueError, TypeError, AttributeError, AssertionError) as error:
            raise _bad_configuration(error) from error
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    return config, choices


def _unknown(overrides: list[str], known: list[str]) -> UserError | None:
    """Return the refusal of the first override whose group or key does not exist, with the nearest name."""
    for text in overrides:
        key = (change := parse(text)).key_or_group
        if not change.is_add() and key not in known:
            ends = " or ".join(name for name in known if name.endswith(f".{key}"))
            full = f"actor_rollout_ref.{key}"  # as the pages shorten it; the critic's keys are spelled more alike
            near = (
                (key in TYPES and f"to add it write +{text}")
                or (full in known and f"did you mean {full}?")
                or did_you_mean(key, known)
                or (ends and f"did you mean {ends}?")
                or "`rpg train --help` lists the groups"
            )
            return UserError(f"{text}: no such setting or group; {near}")
    return None


def known_keys(config: DictConfig) -> list[str]:
    """Return every key that an override may set: groups, sections and settings of the configuration."""
    names = [leaf.split(".") for leaf, _ in leaves(OmegaConf.to_container(config))]
    sections = {".".join(parts[:depth]): None for parts in names for depth in range(1, len(parts) + 1)}
    return [*(group.name for group in CONFIG_DIR.iterdir() if group.is_dir()), *sections]


def _bad_configuration(error: Exception) -> UserError:
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return UserError(f"in the configuration: {error}{cause}")
