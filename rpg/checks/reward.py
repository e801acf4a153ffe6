"""The reward function and its judge; modules that the run imports."""

import ast
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
    """Whether the reward function's path is rpg.rewards, by either spelling that verl takes."""
    import rpg.rewards

    return path == OURS or (bool(path) and Path(str(path)).expanduser().resolve() == Path(rpg.rewards.__file__))


@check("judge", "keywords of rpg.rewards are ones that it takes; a function of somebody else's is given no judge",
       f"{FUNCTION}.path", KWARGS)  # fmt: skip
def judge(run: Run) -> Iterator[Diagnostic]:
    """The judge and its options."""
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


@check("reward function", "the reward function's file or module is there and defines the function",
       f"{FUNCTION}.path", f"{FUNCTION}.name", KWARGS, subject="files")  # fmt: skip
def reward_function(run: Run) -> Iterator[Diagnostic]:
    """By reading the source: importing it may take long, and is the reward workers' work."""
    path, name = run.get(f"{FUNCTION}.path"), run.get(f"{FUNCTION}.name")
    if path is None or is_ours(path):
        file = Path(__file__).parents[1] / "rewards/__init__.py" if path else None
    elif path == ADAPTER:
        own = run.get(KWARGS) or {}
        try:
            find_reward(own.get("file", ""), own.get("function"))
        except RewardError as error:
            yield Diagnostic(f"{KWARGS}.file", own.get("file"), str(error))
        return
    elif path.startswith("pkg://"):
        file = source_of(path.removeprefix("pkg://"))
        if file is None:
            yield Diagnostic(f"{FUNCTION}.path", path, "no such module", "install the package, or name a file")
            return
    else:
        file = Path(path).expanduser()
        if not file.is_file():
            yield Diagnostic(f"{FUNCTION}.path", path, "no such file", f"name a Python file, or {OURS}")
            return
    if file is None:
        return
    try:
        defined = _names(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError, OSError) as error:
        yield Diagnostic(f"{FUNCTION}.path", path, f"cannot be read as Python: {error}")
        return
    if name not in defined and "*" not in defined:
        yield Diagnostic(f"{FUNCTION}.name", name, f"{file} defines no such function")


def _names(module: ast.Module) -> set[str]:
    """What a module's top level defines or imports; "*" where that cannot be said."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def source_of(module: str) -> Path | None:
    """The source file of a module, None where there is none; its parents are imported, it is not."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin else None


PRELOAD = ("rpg.preload.early", "rpg.preload.late")


@check("modules", "the modules that each worker imports, or one process for all of them, are there",
       EXTERNAL, *PRELOAD, subject="files")  # fmt: skip
def modules(run: Run) -> Iterator[Diagnostic]:
    """actor_rollout_ref.model.external_lib and rpg.preload."""
    name = run.get(EXTERNAL)
    if name is not None and source_of(name) is None:
        yield Diagnostic(EXTERNAL, name, "no such module", "install its package, or set null")
    for key in PRELOAD:
        for name in run.get(key):
            if importlib.util.find_spec(name.partition(".")[0]) is None:  # its parents take seconds
                yield Diagnostic(key, name, "no such module", "take it out of the list")
