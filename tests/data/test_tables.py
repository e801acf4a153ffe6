"""The problem of a row: questions and answers in the forms of public sets, and those that are refused."""

from typing import Any

import numpy as np
import pytest

from rpg.data.parquet import Problem
from rpg.data.tables import to_problem
from rpg.data.template import format_prompt
from rpg.diagnostics import UserError
from rpg.registry.datasets import DataSet

MATH, OWN = DataSet("MATH/n", "expression", split="both"), DataSet("n", "expression", split="both")
BOXED = DataSet("MATH", "expression", split="both", solution="boxed")


def problem(row: dict[str, Any], source: DataSet = MATH) -> Problem | str:
    return to_problem(source, [], {"problem": "1?", "answer": "2", **row}, "train", "t.jsonl, row 7")


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        *((text, text) for text in ("007", "1.50", "2024-05-01", "5")),  # texts stay as they are written
        (9007199254740993, "9007199254740993"),
        *((0.1, "0.1"), (1234567.89, "1234567.89"), (1.0625, "1.0625"), (123456792.0, "123456792")),
        *((-0.0, "0"), (float("nan"), "empty answer"), (None, "empty answer"), (" ", "empty answer")),
        *((["3"], "3"), ({"ground_truth": "3"}, "3")),
        ("12 + 1.\n#### 13", "13"),
        (r"first \boxed{1}, no: $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
        (r"$x=\boxed{\text{(A)}}$", r"\text{(A)}"),
        (r"So $x=\boxed{2}$ or $x=\boxed{-1}$.", "x=2, x=-1"),
    ],
)
def test_the_answer_of_a_row(answer: Any, truth: str) -> None:
    found = problem({"answer": answer})
    assert (found if isinstance(found, str) else found.ground_truth) == truth


def test_the_rule_decides_how_an_answer_is_read() -> None:
    """A user's function may read a list of tests; a set of worked solutions has its answers in boxes."""
    found = problem({"answer": '["assert f(1) == 2"]'}, OWN)
    assert isinstance(found, Problem)
    assert found.ground_truth == '["assert f(1) == 2"]'
    assert problem({"answer": "So it is 2."}, BOXED) == "no boxed answer"
    assert problem({"answer": r"So it is $-\boxed{3}$."}) == "no boxed answer"  # but a part of one
    defined = problem({"answer": r"So it is $x^{\boxed{3}}$."}, BOXED)
    assert isinstance(defined, Problem)
    assert defined.ground_truth == "3"


USER, SYSTEM = {"role": "user", "content": "1 + 2?"}, {"role": "system", "content": "Add."}
TURNS = [USER, {"role": "assistant", "content": "3"}, {"role": "user", "content": "And 4?"}]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"problem": [SYSTEM, USER]}, "1 + 2?"),
        ({"problem": [USER, SYSTEM]}, "1 + 2?"),
        ({"problem": [SYSTEM, *TURNS]}, "a conversation of several turns"),
        ({"problem": [SYSTEM]}, "a conversation of several turns"),
        ({"problem": format_prompt("1 + 2?")}, "1 + 2?"),
        ({"problem": "1 + 2?", "prompt": TURNS}, "1 + 2?"),  # a named column, not the prompt beside it
        ({"problem": "The angle in the figure?", "images": ["figure.png"]}, "it has an image"),
        ({"problem": "1 + 2?", "image": None, "images": float("nan")}, "1 + 2?"),
        ({"problem": " \n"}, "empty problem"),
    ],
)
def test_the_question_of_a_row(row: dict[str, Any], text: str) -> None:
    found = problem(row)
    assert (found if isinstance(found, str) else found.text) == text


@pytest.mark.parametrize(
    ("row", "said"),
    [
        # spellings or tests beside each other are not the parts of one answer
        ({"answer": ["Denver", "The Broncos"]}, "answer: .* is a list; write it as text"),
        ({"answer": {"ground_truth": '["3"]'}}, "is a list or struct in a text"),  # Skywork-OR1's
        ({"answer": "{'style': 'rule', 'ground_truth': '12'}"}, "is a list or struct in a text"),  # in a CSV of pandas
        ({"answer": True}, "is a bool"),
        ({"answer": {"value": 1}}, "is a dict"),
        # from 2**53 on; in single precision 0.1, and what was written as 1500000.8
        *(({"answer": value}, "may have lost digits") for value in (2.0**53, float(np.float32(0.1)), 1500000.75)),
        ({"problem": ["1?"]}, r"question: \['1\?'\] is a list"),
        ({"problem": "[{'role': 'user', 'content': '1?'}]"}, "is a chat in a text"),
    ],
)
def test_what_cannot_be_read_is_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=f"^t.jsonl, row 7, .*{said}"):
        problem(row)
