"""Tasks of reasoning-gym: the answer of a response goes to the task's own score_answer, in the sandbox (sandbox.py).

The row's ground_truth is JSON: what the library needs to score, exactly as the generator made it (pack). The library
is asked for nothing else, and imported in the helper process alone.
"""

import functools
import importlib.util
import json
import logging
import re
import warnings
from typing import Any

from rpg.rewards.data_sources import GYM_PREFIX
from rpg.rewards.extract import last_boxed, stated_answer
from rpg.rewards.release import ANSWER, TAIL_CHARS, TIME_LIMIT
from rpg.rewards.sandbox import WALL_FACTOR, Sandbox

logger = logging.getLogger(__name__)

EXTRA = "pip install '.[reasoning-gym]' in the clone, with a C compiler and Python's headers (pycosat has no wheel)"
FREE_CHARS = 4000  # of a response that are read where the task has no answer of its own, which would say how many
FIELDS = ("answer", "config", "metadata")
MARK = re.compile(r"Answer\s*:\s*", re.IGNORECASE)
# as extract.ANSWER_MARK, but with the stars and underscores by its words alone: others are part of some tasks' answers
SOFT_MARK = re.compile(
    r"(?P<opened>[*_]{0,2})(?<![a-z])answer(?P<closed>[*_]{0,2})[ \t]*[:\uff1a]"
    r"(?P<late>[*_]{0,2}(?=\s|$)|\*{0,2})[ \t]*",
    re.IGNORECASE,
)
FENCE = re.compile(r"```\w*\n(.*?)\n?```.*", re.DOTALL)
WRAPPINGS = ((r"\$\$?", r"\$\$?"), (r"\\\(", r"\\\)"), (r"\\boxed\{", r"\}"), (r"\\text\{", r"\}"), ("`", "`"))
WRAPPED = [re.compile(rf"{opening}(.*){closing}") for opening, closing in (*WRAPPINGS, (r"\*\*", r"\*\*"))]

sandbox = Sandbox(
    "rpg.rewards.gym_child", "reasoning-gym", calls_per_child=1000
)  # some tasks load files for each child


def pack(value: Any) -> str:
    """JSON from which `unpack` makes an equal value: tuples and keys that are no text are marked as such.

    Raises TypeError or ValueError for what JSON does not hold: sets, objects, NaN.
    """
    return json.dumps(_marked(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def unpack(text: str) -> Any:
    """The value that `pack` was given. Raises ValueError for text that is no JSON."""
    return json.loads(text, object_hook=_unmarked)


def _marked(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"()": [_marked(item) for item in value]}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not value.keys() & {"()", "{}"}:
            return {key: _marked(item) for key, item in value.items()}
        return {"{}": [[_marked(key), _marked(item)] for key, item in value.items()]}
    return value


def _unmarked(value: dict[str, Any]) -> Any:
    if "()" in value:
        return tuple(value["()"])
    return dict(value["{}"]) if "{}" in value else value


def require_library() -> None:
    """Raise ModuleNotFoundError, naming the extra, where reasoning-gym is not installed."""
    if not is_installed():
        raise ModuleNotFoundError(f"reasoning-gym is not installed, and its tasks are scored by it: {EXTRA}")


@functools.cache
def is_installed() -> bool:
    """Whether the library can be imported; looked up once."""
    return importlib.util.find_spec("reasoning_gym") is not None


def load() -> dict[str, tuple[type, type]]:
    """Import the library: task -> class of its dataset, class of its configuration. Takes seconds and some 150 MB.

    Raises ModuleNotFoundError, naming the extra, where it is not installed.
    """
    require_library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of packages that it uses, each time they are compiled
        from reasoning_gym.factory import DATASETS  # pyright: ignore[reportMissingImports]  # an extra
    return DATASETS


@functools.lru_cache(maxsize=4096)  # the responses of a group share one
def own_answer(truth: str) -> str | None:
    """The task's own answer in a row's ground_truth, None where it has none.

    Raises ValueError where the ground truth is not what `rpg data build reasoning-gym:TASK` writes.
    """
    try:
        entry = unpack(truth)
    except ValueError as error:
        raise ValueError(f"ground_truth {truth[:60]!r} is no JSON ({error}); {_REBUILD}") from None
    if not isinstance(entry, dict) or tuple(sorted(entry)) != FIELDS:
        raise ValueError(f"ground_truth {truth[:60]!r} has not the fields {', '.join(FIELDS)}; {_REBUILD}")
    if not isinstance(entry["answer"], (str, type(None))) or not isinstance(entry["config"], dict):
        raise ValueError(f"ground_truth {truth[:60]!r}: answer is no text, or config no mapping; {_REBUILD}")
    return entry["answer"]


_REBUILD = "build the file again with `rpg data build reasoning-gym:TASK`"


def stated(response: str, own: str | None, judge: str, boxed_fallback: bool = True) -> str | None:
    """The answer that a response gives, None where it gives none (docs/judges.md).

    `own` says how much is read: the last 300 characters and as many as it has; one line where it is one line, else
    all that follows the last "Answer:".
    """
    tail = response[-(TAIL_CHARS + (FREE_CHARS if own is None else len(own))) :]
    tail = tail.encode("utf-8", "replace").decode()
    one_line = own is not None and "\n" not in own
    if judge == "release":
        if one_line:
            return answers[-1].strip() if (answers := ANSWER.findall(tail)) else None
        marks = list(MARK.finditer(tail))
        return tail[marks[-1].end() :].strip() or None if marks else None
    marks = list(SOFT_MARK.finditer(tail))
    if marks:
        mark, rest = marks[-1], tail[marks[-1].end() :]
        text = stated_answer(rest) if one_line else rest.strip()
        if not mark["closed"] and not mark["late"]:
            text = text.removesuffix(mark["opened"]).rstrip()
        if text.count("**") % 2:  # opened before the mark
            text = text.removesuffix("**").rstrip()
    else:
        text = (last_boxed(tail) or "") if boxed_fallback else ""
    fenced = FENCE.match(text)
    text = _bare(fenced[1] if fenced else text)
    if own is not None and text.endswith(".") and not own.endswith("."):
        text = text[:-1]
    return text or None


def _bare(text: str) -> str:
    """A one-line answer without the dollars, braces or stars around the whole of it."""
    for pattern in WRAPPED:
        if match := pattern.fullmatch(text):
            return _bare(match[1].strip())
    return text


def judge_response(task: str, truth: str, response: str, judge: str, boxed_fallback: bool = True,
                   time_limit: float = TIME_LIMIT) -> tuple[float, str]:  # fmt: skip
    """The score that the library gives a response, exactly, and the answer that it was given ("" for none).

    0.0 where score_answer raises, where what it returns is no finite number, and where it takes more than
    `time_limit` seconds of processor time or more memory than the sandbox leaves it; a warning says so.

    Raises ModuleNotFoundError without the library, ValueError for a ground truth that is not of this task's form.
    """
    require_library()
    answer = stated(response, own_answer(truth), judge, boxed_fallback)
    result: dict[str, Any] | None = sandbox.ask(task, truth, answer, time_limit=time_limit)
    if result is None:
        limits = f"{time_limit:.2f} s of processor time, {time_limit * WALL_FACTOR:.0f} s in all and 1 GiB of memory"
        result = {"error": f"no score within {limits}"}
    if "error" in result:
        logger.warning("%s%s: %s; answer %.80r scores 0.0", GYM_PREFIX, task, result["error"], answer)
    return result.get("score", 0.0), answer or ""
