"""Checks of the reward function and its judge."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from rpg.checks.check import Diagnostic, Run, check
from rpg.rewards import JUDGES, OPTIONS, OURS, check_options
from rpg.rewards.user_reward import ADAPTER, RewardError, find_reward

FUNCTION = "reward.custom_reward_function"
KWARGS = f"{FUNCTION}.reward_kwargs"
EXTERNAL = "actor_rollout_ref.model.external_lib"


def is_ours(path: str | None) -> bool:
    """Return whether the reward function is rpg.rewards, in either spelling that verl accepts."""
    import rpg.rewards

    return path == OURS or (bool(path) and Path(str(path)).expanduser().resolve() == Path(rpg.rewards.__file__))


@check("judge", "reward_kwargs are keywords of rpg.rewards; a custom reward function gets no judge")
def judge(run: Run) -> Iterator[Diagnostic]:
    """Checks the judge and its options."""
    path, options = run.get(f"{FUNCTION}.path"), run.get(KWARGS) or {}
    if not isinstance(options, dict):
        yield Diagnostic(KWARGS, options, "must be a mapping", "judge=release or judge=verified sets the judge")
        return
    if not is_ours(path):
        if options.get("judge") in JUDGES:
            wrong = f"is for {OURS}, and {FUNCTION}.path={path} is another function"
            yield Diagnostic(f"{KWARGS}.judge", options["judge"], wrong, f"add '~{KWARGS}.judge' to the overrides")
        return
    unknown = sorted(set(options) - set(OPTIONS))
    for name in unknown:
        yield Diagnostic(f"{KWARGS}.{name}", options[name], f"rpg.rewards takes {', '.join(OPTIONS)}", "remove it")
    try:
        check_options(**{name: value for name, value in options.items() if name in OPTIONS})
    except ValueError as error:
        named, _, wrong = str(error).partition(" ")
        key, _, value = named.partition("=")
        yield Diagnostic(f"{KWARGS}.{key}", value, wrong, "judge=release or judge=verified sets the judge")


@check("reward function", "the file or module of the reward function exists and defines it", subject="files")
def reward_function(run: Run) -> Iterator[Diagnostic]:
    """Reads the source; importing it is left to the reward workers, because it may take long."""
    path, name = run.get(f"{FUNCTION}.path"), run.get(f"{FUNCTION}.name")
    if path is None:
        return
    if path == ADAPTER:
        own = run.get(KWARGS) or {}
        try:
            find_reward(own.get("file", ""), own.get("function"))
        except RewardError as error:
            yield Diagnostic(f"{KWARGS}.file", own.get("file"), str(error))
        return
    packaged = path.startswith("pkg://")
    file = source_of(path.removeprefix("pkg://")) if packaged else Path(path).expanduser()
    if file is None or not file.is_file():
        remedy = "install the package, or name a file" if packaged else f"name a Python file, or {OURS}"
        yield Diagnostic(f"{FUNCTION}.path", path, f"no such {'module' if packaged else 'file'}", remedy)
        return
    try:
        module = compile(file.read_bytes(), str(file), "exec")
    except (SyntaxError, ValueError, OSError) as error:
        yield Diagnostic(f"{FUNCTION}.path", path, f"cannot be read as Python: {error}")
        return
    if name not in module.co_names and ("*",) not in module.co_consts:  # `from x import *` may define it
        yield Diagnostic(f"{FUNCTION}.name", name, f"{file} defines no such function")


def source_of(module: str) -> Path | None:
    """Return a module's source file, or None; imports its parents but not the module."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin else None
