"""A pydantic model of one row, and its errors as diagnostics."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError

from rpg.data.published import NOT_ENGLISH, is_few_shot, problem_text
from rpg.data.template import PREFIX, is_templated, strip_prompt
from rpg.diagnostics import ABSENT, Diagnostic, Level, did_you_mean
from rpg.registry.datasets import OF_SPELLING, is_gym, of_source
from rpg.rewards import release
from rpg.rewards.extract import ANSWER_MARK, BOX, MAX_ANSWER_CHARS, THOUGHT
from rpg.rewards.number import DECIMAL, plain_number
from rpg.rewards.verified import judge_response

GYM_REWARD = "pkg://rpg.rewards.gym"  # scores rows of is_gym
NO_ANSWERS = frozenset(("nan", "none", "null", "n/a", "na", "unknown", "?", "-", "[invalid]"))
BUILD = "build the file again with `rpg data build`"
REMEDIES = {  # remedy for a value of another type, by column
    "data_source": f"name the problem set; {BUILD}",
    "prompt": 'give [{"role": "user", "content": ...}]',
    "reward_model": "give {ground_truth, style}",
    "extra_info": "give {index, raw_problem, split}; verl reads it",
}
HARMLESS = ("extra_info.index", "extra_info.split")  # training does not depend on them


def rejection(what: str, remedy: str, level: Literal["error", "warning"] = "error") -> PydanticCustomError:
    """Return a validator's exception with message, remedy and level."""
    return PydanticCustomError(level, "{what}", {"what": what, "remedy": remedy})


def row_diagnostics(row: dict[str, Any], own_reward: bool = False) -> Iterator[Diagnostic]:
    """Yield at most one diagnostic per field of a row.

    own_reward: a custom reward function scores the row, so rules on answer and template are off.
    row_checks.py says once per file whether a rule scores the data_source.
    """
    context = {
        "own_reward": own_reward,
        "data_source": str(row.get("data_source")),
        "problem": problem_text(row),
        "few_shot": is_few_shot(row),
    }
    try:
        Row.model_validate(row, context=context)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            loc, kind = detail["loc"], detail["type"]
            key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
            remedy = detail.get("ctx", {}).get("remedy", REMEDIES.get(str(loc[0]), BUILD))
            level: Level = "warning" if kind == "warning" or key in HARMLESS else "error"
            value = ABSENT if kind == "missing" else short(detail["input"])
            yield Diagnostic(key, value, "missing" if kind == "missing" else detail["msg"], remedy, level)


def short(value: Any) -> str:
    """Return `value` for a message, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_balanced(text: str) -> bool:
    """Return whether braces, \\left and \\right, and dollars are balanced (one dollar may be a price)."""
    plain = text.replace("\\{", "").replace("\\}", "").replace("\\$", "")
    level = 0
    for character in plain:
        level += (character == "{") - (character == "}")
        if level < 0:
            return False
    if text.count("\\left") - text.count("\\leftarrow") != text.count("\\right") - text.count("\\rightarrow"):
        return False
    return level == 0 and (plain.count("$") % 2 == 0 or plain.startswith("$"))


def _context(info: ValidationInfo) -> dict[str, Any]:
    assert info.context is not None
    return info.context


def score_remedy(data_source: str) -> str:
    """Return what to do about a data_source without a rule."""
    if is_gym(data_source):
        return f"the library scores it: give --reward {GYM_REWARD}"
    hint = f"{near} " if (near := did_you_mean(data_source.strip(), OF_SPELLING, 0.75)) else ""
    return (
        f"{hint}give --reward FILE, as to rpg train, if your own function scores it, or build the file with "
        "--data-source MATH or gsm8k; rpg.rewards.KNOWN_DATA_SOURCES lists the rules"
    )


def _content(content: str) -> str:
    if "\ufffd" in content or "\x00" in content:
        raise rejection("has U+FFFD or NUL", "read the source as UTF-8; text was lost")
    return content


def _prompt(messages: list["Message"], info: ValidationInfo) -> list["Message"]:
    """Check the last message: from the user, one problem, in English, in a template that asks for the answer's form."""
    content = messages[-1].content
    if messages[-1].role != "user":
        raise rejection(f"ends with role {messages[-1].role!r}", "the last message must be the user's")
    if not strip_prompt(content).strip():
        raise rejection("no problem in it", "leave the row out")
    if _context(info)["own_reward"] or _context(info)["few_shot"]:
        return messages
    if content.count(PREFIX.strip()) > 1:
        raise rejection("the template is around it twice", "apply format_prompt to the bare problem once")
    has_mark, has_box = ANSWER_MARK.search(content), BOX.search(content)
    if not has_mark and not has_box:
        raise rejection(
            "the prompt does not ask for the form of the answer",
            'ask for a last line "Answer: ..." (rpg.data.template.format_prompt); other answers score -1',
        )
    if not has_mark:
        what = 'asks for \\boxed{}, which judge=release rejects in the integer sets without "Answer:"'
        raise rejection(what, f"{BUILD}, or use judge=verified", "warning")
    if not is_templated(content):
        raise rejection("another template than the release's", f"to compare with the paper, {BUILD}", "warning")
    if NOT_ENGLISH.search(strip_prompt(content)):
        raise rejection("not English", f"the paper trains on English; {BUILD}", "warning")
    return messages


def _ground_truth(truth: Any, info: ValidationInfo) -> Any:
    data_source = _context(info)["data_source"]
    if _context(info)["own_reward"]:
        return truth
    is_number = isinstance(truth, (int, float)) and not isinstance(truth, bool)
    if not isinstance(truth, str) and not is_number:
        raise rejection(f"is a {type(truth).__name__}", "every row needs the right answer as text; leave the row out")
    text = str(truth).strip()
    if not text:
        raise rejection("empty", "every row needs the right answer as text; leave the row out")
    if text.lower() in NO_ANSWERS:
        raise rejection("is no answer", "give the answer, or leave the row out")
    if ANSWER_MARK.search(text) or "\n" in text or "####" in text or THOUGHT in text:
        raise rejection("is a response", "give the bare answer")
    if len(text) > MAX_ANSWER_CHARS:
        raise rejection(f"{len(text)} characters", f"an answer over {MAX_ANSWER_CHARS} never scores; leave it out")
    if not is_balanced(text):
        raise rejection("has an unbalanced bracket or $", "correct the LaTeX")
    row = of_source(data_source)
    if row and row.has_integers:
        number = _integer(text)
        if number is None:
            raise rejection("is no integer", f"all answers of {data_source} are integers")
        if row.largest is not None and not 0 <= number <= row.largest:
            raise rejection(f"is not in 0..{row.largest}", f"answers of {row.name} are; correct the row")
        if release.normalize(text) != str(number):
            what = f"judge=release compares text exactly, and this is {number}"
            raise rejection(what, "write the bare integer", "warning")
    if is_number:
        raise rejection("is a number", "write it as text", "warning")
    return truth


def _integer(truth: str) -> int | None:
    """Return the integer that a truth states, also beside a unit that judge=verified lets a response omit."""
    truth = truth.replace("{,}", ",")  # LaTeX of 1,234
    number, first = plain_number(truth.strip("$ ")), DECIMAL.search(truth)
    if number is None and first and "=" not in truth and judge_response(f"Answer: {first[0]}", truth)[0]:
        number = plain_number(first[0])
    return int(number) if number is not None and number.denominator == 1 else None


def _raw_problem(raw: Any, info: ValidationInfo) -> Any:
    problem, own_reward = _context(info)["problem"], _context(info)["own_reward"]
    if not own_reward and isinstance(raw, str) and raw.strip() and problem and raw.strip() not in problem:
        raise rejection("is not what the prompt asks", BUILD)
    return raw


def _present(extra: Any) -> Any:
    if extra is None:
        raise rejection("missing", f"verl then numbers every row 0; {BUILD}", "warning")
    return extra


def _no_media(value: Any) -> Any:
    if value:
        raise rejection("has media", "the models of this recipe read text only; leave the row out")
    return value


Media = Annotated[Any, AfterValidator(_no_media)]


class Message(BaseModel):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, AfterValidator(_content)]


class RewardModel(BaseModel):
    """The answer; verl's `style` beside it is not read."""

    ground_truth: Annotated[Any, AfterValidator(_ground_truth)]


class ExtraInfo(BaseModel):
    """The fields that rpg writes; others are unchecked."""

    index: Annotated[int, Field(strict=True, ge=0)]
    raw_problem: Annotated[Any, AfterValidator(_raw_problem)] = None
    split: Literal["train", "test"] | None = None


class Row(BaseModel):
    """A row in verl's columns; others are unchecked. The validators need the context of row_diagnostics."""

    data_source: str
    prompt: Annotated[list[Message], Field(min_length=1), AfterValidator(_prompt)]
    reward_model: RewardModel
    extra_info: Annotated[ExtraInfo, BeforeValidator(_present), Field(validate_default=True)] = None  # type: ignore[assignment]
    images: Media = None
    videos: Media = None
    audios: Media = None
