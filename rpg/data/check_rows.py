"""What can be wrong with one row, column by column."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from rpg.data.findings import Issue, warning
from rpg.data.published import NOT_ENGLISH, problem_text
from rpg.data.schema import ABILITY, STYLE
from rpg.data.template import PREFIX, is_templated, strip_prompt
from rpg.rewards import compute_score, gym, release, verified
from rpg.rewards.data_sources import (
    AIME_SOURCES,
    GYM_PREFIX,
    GYM_SOURCES,
    INTEGER_SOURCES,
    KNOWN_DATA_SOURCES,
    UNANSWERED,
    is_known,
)
from rpg.rewards.extract import ANSWER_MARK, MAX_ANSWER_CHARS

REQUIRED = ("data_source", "prompt", "reward_model")
MEDIA = ("images", "videos", "audios")
ROLES = ("system", "user", "assistant")
NO_ANSWERS = frozenset(("nan", "none", "null", "n/a", "na", "unknown", "?", "-", "[invalid]"))
BUILD = "build the file again with `rpg data build`"


def short(value: Any) -> str:
    """Return `value` for a message, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def row_issues(row: dict[str, Any]) -> Iterator[Issue]:
    """Yield everything that is wrong with `row` by itself."""
    if "data_source" in row:
        yield from _data_source(row["data_source"])
    prompt_issues = list(_prompt(row["prompt"])) if "prompt" in row else []
    yield from prompt_issues
    if "reward_model" in row:
        yield from _reward_model(row["reward_model"], str(row.get("data_source")))
    if "extra_info" in row:
        prompt_is_whole = not any(issue.is_error for issue in prompt_issues)
        yield from _extra_info(row["extra_info"], problem_text(row) if prompt_is_whole else None)
    if row.get("ability", ABILITY) != ABILITY:
        yield warning("ability", f"{short(row['ability'])}", f"the recipe writes {ABILITY!r}; nothing reads it")
    for column in MEDIA:
        if row.get(column):
            yield Issue(column, "holds media", "the models of this recipe read text only; leave the row out")


def _data_source(value: Any) -> Iterator[Issue]:
    if not isinstance(value, str):
        yield Issue("data_source", f"{short(value)} is no text", f"name the problem set; {BUILD}")
    elif not is_known(value):
        near = get_close_matches(value.strip(), KNOWN_DATA_SOURCES | GYM_SOURCES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = "rpg.rewards.KNOWN_DATA_SOURCES lists what is scored"
        yield Issue("data_source", f"nothing scores {short(value)}", f"{hint}{known}")


def _prompt(prompt: Any) -> Iterator[Issue]:
    shape = 'give [{"role": "user", "content": ...}]'
    if not isinstance(prompt, list):
        yield Issue("prompt", f"{short(prompt)} is no list of messages", shape)
        return
    if not prompt:
        yield Issue("prompt", "no message", shape)
        return
    for number, message in enumerate(prompt):
        where = f"prompt[{number}]"
        if not isinstance(message, dict):
            yield Issue(where, f"{short(message)} is no message", shape)
            return
        if message.get("role") not in ROLES:
            yield Issue(f"{where}.role", f"{short(message.get('role'))}", f"one of {', '.join(ROLES)}")
        content = message.get("content")
        if not isinstance(content, str):
            yield Issue(f"{where}.content", f"{short(content)} is no text", shape)
            return
        if "\ufffd" in content or "\x00" in content:
            yield Issue(f"{where}.content", "holds U+FFFD or NUL", "read the source as UTF-8; text was lost")
    if prompt[-1].get("role") in ROLES and prompt[-1]["role"] != "user":
        yield Issue("prompt", f"ends with role {prompt[-1]['role']!r}", "the last message must be the user's")
    yield from _question(prompt[-1]["content"], f"prompt[{len(prompt) - 1}].content")


def _question(content: str, where: str) -> Iterator[Issue]:
    problem = strip_prompt(content)
    if not problem.strip():
        yield Issue(where, "no problem in it", "leave the row out")
        return
    if content.count(PREFIX.strip()) > 1:
        yield Issue(where, "the template stands around it twice", "apply format_prompt to the bare problem once")
    elif not is_templated(content):
        if "\\boxed" in content and not ANSWER_MARK.search(content):
            problem = 'asks for \\boxed{}, which judge release does not take in the integer sets without "Answer:"'
            yield warning(where, problem, f"{BUILD}, or take judge=verified")
        elif ANSWER_MARK.search(content):
            yield warning(where, "another template than the release's", f"to compare with the paper, {BUILD}")
        else:
            yield Issue(
                where,
                "nothing tells the model how to answer",
                'ask for a last line "Answer: ..." (rpg.data.template.format_prompt); other answers score -1',
            )
    if NOT_ENGLISH.search(problem):
        yield warning(where, f"not English: {short(problem[:30])}", f"the paper trains on English; {BUILD}")


def _reward_model(reward_model: Any, data_source: str) -> Iterator[Issue]:
    if not isinstance(reward_model, dict):
        yield Issue("reward_model", f"{short(reward_model)} is no struct", "give {ground_truth, style}")
        return
    if reward_model.get("style") != STYLE:
        yield warning("reward_model.style", short(reward_model.get("style")), f"the recipe writes {STYLE!r}")
    where, truth = "reward_model.ground_truth", reward_model.get("ground_truth")
    if data_source in GYM_SOURCES:
        yield from _gym_truth(truth, data_source, where)
    elif truth is None:
        yield Issue(where, "missing", "every row needs the right answer as text; leave the row out")
    elif isinstance(truth, (int, float)) and not isinstance(truth, bool) and truth == truth:
        yield warning(where, f"{short(truth)} is a number", "write it as text")
        yield from _truth(str(truth), data_source, where)
    elif not isinstance(truth, str):
        yield Issue(where, f"{short(truth)} is a {type(truth).__name__}", "write the answer as text")
    else:
        yield from _truth(truth, data_source, where)


def _gym_truth(truth: Any, data_source: str, where: str) -> Iterator[Issue]:
    build = "build the file again with `rpg data build reasoning-gym:TASK`"
    if not isinstance(truth, str):
        yield Issue(where, f"{short(truth)} is no JSON of reasoning-gym's", build)
        return
    try:
        own = gym.own_answer(truth)
    except ValueError as error:
        yield Issue(where, str(error).partition(";")[0], build)
        return
    task, metadata = data_source.removeprefix(GYM_PREFIX), gym.unpack(truth)["metadata"]
    if not isinstance(metadata, dict):
        yield Issue(where, f"metadata {short(metadata)} is no mapping", build)
    elif (made_by := metadata.get("source_dataset", task)) != task:
        yield Issue(where, f"it is of {short(made_by)}, not of {data_source}", f"correct data_source, or {build}")
    elif own is None and task not in UNANSWERED:
        yield Issue(where, f"no answer, which rows of {data_source} have", build)
    elif own is not None and gym.is_installed():
        score = compute_score(data_source, f"Answer: {own}", truth)["score"]
        if score != 1.0:
            yield Issue(where, f"its own answer, {short(own)}, scores {score:g}: nothing can be learnt", build)


def _truth(truth: str, data_source: str, where: str) -> Iterator[Issue]:
    text = truth.strip()
    if not text:
        yield Issue(where, "empty", "every row needs the right answer as text; leave the row out")
    elif text.lower() in NO_ANSWERS:
        yield Issue(where, f"{short(truth)} is no answer", "give the answer, or leave the row out")
    elif ANSWER_MARK.search(text) or "\n" in text or "####" in text:
        yield Issue(where, f"{short(truth)} is a response", "give the bare answer")
    elif len(text) > MAX_ANSWER_CHARS:
        yield Issue(where, f"{len(text)} characters", f"an answer over {MAX_ANSWER_CHARS} never scores; leave it out")
    elif not is_balanced(text):
        yield Issue(where, f"{short(truth)} has a bracket or $ without its partner", "correct the LaTeX")
    elif data_source in INTEGER_SOURCES:
        number = verified.number_in(text)
        if number is None or number.denominator != 1:
            yield Issue(where, f"{short(truth)} is no integer", f"all answers of {data_source} are integers")
        elif data_source in AIME_SOURCES and not 0 <= number <= 999:
            yield Issue(where, f"{short(truth)} is not in 0..999", "answers of AIME are; correct the row")
        elif release.normalize(text) != str(number):
            yield warning(where, f"{short(truth)}: judge release wants it letter by letter", f"write {number}")


def is_balanced(text: str) -> bool:
    """Whether braces pair up, \\left and \\right too, and dollars come in twos (but for one price sign)."""
    plain = text.replace("\\{", "").replace("\\}", "").replace("\\$", "")
    level = 0
    for character in plain:
        level += (character == "{") - (character == "}")
        if level < 0:
            return False
    if level:
        return False
    if text.count("\\left") - text.count("\\leftarrow") != text.count("\\right") - text.count("\\rightarrow"):
        return False
    return plain.count("$") % 2 == 0 or plain.startswith("$")


def _extra_info(extra: Any, problem: str | None) -> Iterator[Issue]:
    if extra is None:
        yield warning("extra_info", "missing", f"verl then numbers every row 0; {BUILD}")
        return
    if not isinstance(extra, dict):
        yield Issue("extra_info", f"{short(extra)} is no struct", "give {index, raw_problem, split}; verl reads it")
        return
    index = extra.get("index")
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        yield warning("extra_info.index", short(index), "give the repeat number 0..K-1")
    raw = extra.get("raw_problem")
    if isinstance(raw, str) and raw.strip() and problem is not None and raw.strip() not in problem:
        yield Issue("extra_info.raw_problem", f"{short(raw)} is not what the prompt asks", BUILD)
    if extra.get("split") not in (None, "train", "test"):
        yield warning("extra_info.split", short(extra["split"]), "the recipe writes 'train' or 'test'")
