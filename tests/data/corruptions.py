"""Corruptions of a good file, each with the place, the message and the remedy that the check must give."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from rpg.data.schema import SCHEMA, Problem, make_row
from rpg.data.template import PREFIX, SUFFIX, format_prompt

Rows = list[dict[str, Any]]


def good_rows(split: str = "train", data_source: str = "math-dapo", repeat: int = 1) -> Rows:
    problems = [Problem(data_source, f"What is the {n}th prime of {split}?", str(n), split) for n in range(6)]
    return [make_row(problem, index) for problem in problems for index in range(repeat)]


def set_path(*path: str | int) -> Callable[[Any], Callable[[dict], None]]:
    """Return a maker of corruptions that put a value at `path` of a row."""

    def with_value(value: Any) -> Callable[[dict], None]:
        def corrupt(row: dict) -> None:
            target: Any = row
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = value

        return corrupt

    return with_value


source, prompt = set_path("data_source"), set_path("prompt")
content, role = set_path("prompt", 0, "content"), set_path("prompt", 0, "role")
truth, extra = set_path("reward_model", "ground_truth"), set_path("extra_info")

# what, corruption of row 3, the column named, a word of the message, a word of the remedy
ROW_CORRUPTIONS = [
    ("unknown source", source("gsm8k"), "data_source", "nothing scores 'gsm8k'", "KNOWN_DATA_SOURCES"),
    ("misspelt source", source("math-dappo"), "data_source", "nothing scores", "did you mean 'math-dapo'?"),
    ("source with a space", source("math-dapo "), "data_source", "nothing scores", "did you mean 'math-dapo'?"),
    ("null source", source(None), "data_source", "is no text", "name the problem set"),
    ("empty source", source(""), "data_source", "nothing scores", "KNOWN_DATA_SOURCES"),
    ("null prompt", prompt(None), "prompt", "no list of messages", '"role": "user"'),
    ("no message", prompt([]), "prompt", "no message", '"role": "user"'),
    ("null message", prompt([None]), "prompt[0]", "no message", '"role": "user"'),
    ("null content", content(None), "prompt[0].content", "no text", '"role": "user"'),
    ("empty content", content(""), "prompt[0].content", "no problem in it", "leave the row out"),
    ("template only", content(PREFIX + " " + SUFFIX), "prompt[0].content", "no problem in it", "leave the row"),
    ("template twice", content(format_prompt(format_prompt("p"))), "prompt[0].content", "twice", "once"),
    ("no instruction", content("What is 2 + 2?"), "prompt[0].content", "how to answer", "format_prompt"),
    ("lost characters", content(format_prompt("Let \ufffd")), "prompt[0].content", "U+FFFD", "UTF-8"),
    ("null role", role(None), "prompt[0].role", "None", "system, user, assistant"),
    ("unknown role", role("human"), "prompt[0].role", "'human'", "system, user, assistant"),
    ("assistant last", role("assistant"), "prompt", "ends with role 'assistant'", "must be the user's"),
    ("null reward", set_path("reward_model")(None), "reward_model", "no struct", "ground_truth"),
    ("null truth", truth(None), "reward_model.ground_truth", "missing", "leave the row out"),
    ("empty truth", truth(" "), "reward_model.ground_truth", "empty", "leave the row out"),
    ("nan truth", truth("nan"), "reward_model.ground_truth", "'nan' is no answer", "give the answer"),
    ("truth in words", truth("many"), "reward_model.ground_truth", "no integer", "are integers"),
    ("truth half", truth("1/2"), "reward_model.ground_truth", "no integer", "are integers"),
    ("truth a response", truth("Answer: 5"), "reward_model.ground_truth", "a response", "bare answer"),
    ("truth a solution", truth("2+2=4\n4"), "reward_model.ground_truth", "a response", "bare answer"),
    ("truth too long", truth("1" * 201), "reward_model.ground_truth", "201 characters", "never scores"),
    ("open brace", truth("\\frac{1}{2"), "reward_model.ground_truth", "without its partner", "correct the LaTeX"),
    ("odd dollars", truth("5$"), "reward_model.ground_truth", "without its partner", "correct the LaTeX"),
    ("wrong raw problem", set_path("extra_info", "raw_problem")("Another?"), "extra_info.raw_problem", "asks", "build"),
    ("two splits", set_path("extra_info", "split")("test"), "extra_info.split", "mixed", "two files"),
]


def retyped(name: str, values: Callable[[dict], Any]) -> Callable[[Rows], pa.Table]:
    """Return a corruption that replaces a column by another type."""

    def corrupt(rows: Rows) -> pa.Table:
        return pa.Table.from_pylist([{**row, name: values(row)} for row in rows])

    return corrupt


def without(name: str) -> Callable[[Rows], pa.Table]:
    return lambda rows: pa.Table.from_pylist(rows, schema=SCHEMA).drop_columns([name])


def doubled(rows: Rows) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return table.append_column("prompt", table.column("prompt"))


TABLE_CORRUPTIONS = [
    ("no data_source", without("data_source"), "all rows, data_source: no such column", "rpg data build"),
    ("no prompt", without("prompt"), "all rows, prompt: no such column", "rpg data build"),
    ("no reward_model", without("reward_model"), "all rows, reward_model: no such column", "rpg data build"),
    ("column twice", doubled, "all rows, prompt: column stands there twice", "keep one"),
    ("no rows", lambda rows: pa.Table.from_pylist([], schema=SCHEMA), "all rows, file: no rows", "again"),
    ("prompt text", retyped("prompt", lambda row: "2 + 2?"), "row 0, prompt: '2 + 2?' is no list", '"role"'),
    ("prompt of texts", retyped("prompt", lambda row: ["2?"]), "row 0, prompt[0]: '2?' is no message", '"role"'),
    ("source numbers", retyped("data_source", lambda row: 7), "row 0, data_source: 7 is no text", "name the problem"),
    ("reward text", retyped("reward_model", lambda row: "5"), "row 0, reward_model: '5' is no struct", "ground_truth"),
    (
        "truth list",
        retyped("reward_model", lambda row: {"ground_truth": ["5"]}),
        "row 0, reward_model.ground_truth: ['5'] is a list",
        "as text",
    ),
    ("extra text", retyped("extra_info", lambda row: "x"), "row 0, extra_info: 'x' is no struct", "{index"),
    ("images", retyped("images", lambda row: ["a.png"]), "row 0, images: holds media", "text only"),
]
