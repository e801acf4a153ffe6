"""Imports a user's reward function and calls it, in the main thread of a sandbox's child (sandbox.py).

There alarms and pools of processes work, and a call that hangs or holds Python's lock can be killed. Unlike math-verify
for `release`, a user's function may use more memory and write files.

The names of the parameters say the form of the call (FORMS); arguments are passed by name, those that the function has.
TRL and verl's batch form get lists of one and return one. Each may be `async def`.
"""

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rpg.rewards import Score
from rpg.rewards.sandbox import cut, described
from rpg.rewards.user_function import PACKAGE, RewardError, as_score

USUAL = ("compute_score", "reward")  # preferred names of the function
# the forms, by the parameters that each must have
TRL, BATCH = ("completions",), ("solution_strs", "ground_truths")
VERL, SHORT = ("solution_str", "ground_truth"), ("response", "answer")
FORMS = (
    "write reward(response, answer, row=None), verl's compute_score(data_source, solution_str, ground_truth, "
    "extra_info), its batch form (data_sources, solution_strs, ground_truths, extra_infos) or TRL's "
    "reward(completions, **columns)"
)
SCRIPT = "__mp_main__"  # the name by which multiprocessing finds what a script defines, here and in a spawned process


class Reward:
    """A reward function, called in its form."""

    def __init__(self, file: str, name: str, function: Callable[..., Any], form: tuple[str, ...]) -> None:
        self.file, self.where, self.function, self.form = file, f"{file}, {name}", function, form
        parameters = [*inspect.signature(function).parameters.values()]
        self.is_open = any(one.kind == one.VAR_KEYWORD for one in parameters)
        self.names = {one.name for one in parameters}
        named = (one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
        self.required = [one.name for one in named if one.default is one.empty]
        self.loop = asyncio.new_event_loop()  # of all calls, so that a function may keep its connections
        self.takes_messages = False

    def __call__(
        self, source: str, response: str, truth: Any, extra: Mapping[str, Any], options: dict[str, Any]
    ) -> Any:
        """Return the function's value for one response; options: further keywords."""
        question = extra.get("raw_problem")
        verls = {"data_source": source, "solution_str": response, "ground_truth": truth, "extra_info": extra}
        if self.form == VERL:
            return self._value(verls, options)
        if self.form == SHORT:
            row = {**extra, "data_source": source, "question": question, "answer": truth}
            return self._value({"response": response, "answer": truth, "row": row}, options)
        if self.form == BATCH:
            return self._only(self._value({f"{name}s": [value] for name, value in verls.items()}, options))
        columns = {"answer": truth, "solution": truth, "ground_truth": truth, "data_source": source, **extra}
        lists = {name: [value] for name, value in columns.items()}
        if not self.takes_messages:
            try:
                return self._only(self._value({**lists, "prompts": [question], "completions": [response]}, options))
            except TypeError as error:
                # of completion[0]["content"]; the other way round, `"7" in messages` would only be False
                if not str(error).startswith("string indices must be integers"):
                    raise
                self.takes_messages = True
        lists["prompts"] = [[{"role": "user", "content": question}]]
        lists["completions"] = [[{"role": "assistant", "content": response}]]
        return self._only(self._value(lists, options))

    def _value(self, offered: dict[str, Any], options: dict[str, Any]) -> Any:
        """Return the function's value; it is called with those of the offered arguments that it has."""
        arguments = offered if self.is_open else {name: offered[name] for name in offered if name in self.names}
        if missing := [name for name in self.required if name not in arguments and name not in options]:
            raise RewardError(f"{self.where}: has no value for {', '.join(missing)}; the row has {', '.join(offered)}")
        value = self.function(**{**arguments, **options})
        return self.loop.run_until_complete(_result(value)) if inspect.isawaitable(value) else value

    def _only(self, values: Any) -> Any:
        """Return the value of a list of one."""
        if isinstance(values, str | Mapping) or not hasattr(values, "__len__") or len(values) != 1:
            raise RewardError(f"{self.where}: returns {values!r:.80} for a list of one response; return a list of one")
        return values[0]


async def _result(value: Any) -> Any:
    return await value


_loaded: list[Reward] = []  # the only one of this process


def warm_up(file: str, name: str = "") -> None:
    """Import the user's file and find its function."""
    sys.argv = [file]  # for a file that reads its command line
    try:
        module = import_file(file)
    except BaseException as error:  # noqa: BLE001  # whatever the file raises, also SystemExit
        message = f"cannot be imported: {described(error, file)}"
        hint = f"; give {PACKAGE}PACKAGE.{Path(file).stem}" if "relative import" in message else ""
        raise RewardError(message + hint) from None
    _loaded.append(find(module, file, name))


def answer(
    data_source: str, response: str, truth: Any, extra_info: Mapping[str, Any], options: dict[str, Any]
) -> tuple[Score | None, str]:
    """Return the score of one response and "", or None and the error, with the line that raised it."""
    (reward,) = _loaded
    try:
        return as_score(reward(data_source, response, truth, extra_info, options), reward.where), ""
    except RewardError as error:
        return None, cut(str(error))
    except BaseException as error:  # noqa: BLE001  # whatever a user's function raises, also SystemExit
        return None, described(error, reward.file)


def import_file(file: str) -> ModuleType:
    """Import a file of any name, or pkg://MODULE, so that processes that it starts find it.

    Its folder is put at the end of sys.path, before the working directory, so that its neighbours can be imported. A
    file in a package is imported by its name there, another one like a script.
    """
    if file.startswith(PACKAGE):
        return importlib.import_module(file.removeprefix(PACKAGE))
    path = Path(file)
    root, name = path.parent, path.stem
    while (root / "__init__.py").is_file():
        root, name = root.parent, f"{root.name}.{name}"
    for folder in dict.fromkeys(map(str, (path.parent, path.resolve().parent, root))):
        if folder not in sys.path:
            sys.path.insert(len(sys.path) - (sys.path[-1] == os.getcwd()), folder)
    if root != path.parent and _origin(name) == path.resolve():
        return importlib.import_module(name)
    module = ModuleType(SCRIPT)
    module.__file__ = file
    sys.modules[SCRIPT] = sys.modules["__main__"] = module
    exec(compile(path.read_bytes(), file, "exec"), module.__dict__)
    return module


def _origin(name: str) -> Path | None:
    """Return the file of a module, whose packages are imported; None if that fails."""
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec(name)
        return Path(spec.origin).resolve() if spec and spec.origin else None
    return None


def find(module: ModuleType, file: str, name: str = "") -> Reward:
    """Return the function `name`, else compute_score, reward, or the module's only public function of a known form.

    Raises RewardError if there is none, or if it has another form.
    """
    public = {key: value for key, value in vars(module).items() if callable(value) and not key.startswith("_")}
    own = {key: value for key, value in public.items() if getattr(value, "__module__", "") == module.__name__}
    formed = [key for key, value in own.items() if inspect.isfunction(value) and form_of(value)]
    usual = [key for functions in (own, public) for key in USUAL if key in functions][:1]
    chosen = [name] if name else usual or formed
    if len(chosen) != 1 or not callable(getattr(module, chosen[0], None)):
        has = ", ".join(own) or "none"
        remedy = "give the name of one" if len(chosen) > 1 or name else FORMS
        raise RewardError(f"{name or 'the reward function'} not found among its functions ({has}); {remedy}")
    function = getattr(module, chosen[0])
    if not (form := form_of(function)):
        raise RewardError(f"{chosen[0]}{_signature(function)} is not a reward function; {FORMS}")
    return Reward(file, chosen[0], function, form)


def form_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return TRL, BATCH, VERL or SHORT, whose parameters the function has, some perhaps in **keywords; else None."""
    with contextlib.suppress(ValueError, TypeError):
        parameters = inspect.signature(function).parameters.values()
        by_name = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        is_open = any(one.kind == one.VAR_KEYWORD for one in parameters)
        for form in (TRL, BATCH, VERL, SHORT):
            if by_name.issuperset(form) or (is_open and by_name & {*form}):
                return form
        return VERL if is_open and not by_name else None
    return None


def _signature(function: Callable[..., Any]) -> str:
    with contextlib.suppress(ValueError, TypeError):
        return str(inspect.signature(function))
    return "(...)"
