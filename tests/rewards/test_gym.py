"""Answers to reasoning-gym's tasks: what is taken from a response, and that the score is the library's own."""

import ast
import importlib.util
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from rpg.rewards import JUDGES, compute_score, gym
from rpg.rewards.data_sources import GYM_TASKS
from tests.gym_library import needs_library

ROOT = Path(__file__).resolve().parents[2]
SEED = 11
RAISED = (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)
IN_CI = ("chain_sum", "rearc", "countdown", "prime_factorization", "rotate_matrix", "graph_color")
EVERY = [name if name in IN_CI else pytest.param(name, marks=pytest.mark.full) for name in GYM_TASKS]


def truth_of(entry: dict[str, Any]) -> str:
    return gym.pack({"answer": entry["answer"], "config": {}, "metadata": entry["metadata"]})


def dataset(task: str, size: int = 4) -> Any:
    made, settings = gym.load()[task]
    return made(config=settings(seed=SEED, size=size))


def test_json_keeps_what_score_answer_compares():
    value = {"a": (1, [2, (3,)], {}), "b": {1: "x", (2, 3): None}, "c": {"()": [1]}, "d": {"{}": 1}, "e": [0.1, True]}
    again = gym.unpack(gym.pack(value))
    assert again == value
    assert type(again["a"]) is tuple
    assert type(again["a"][1][1]) is tuple
    for unheld in ({1, 2}, float("nan"), object()):
        with pytest.raises((TypeError, ValueError)):
            gym.pack(unheld)


@pytest.mark.parametrize(
    ("response", "own", "release", "verified"),
    [
        ("2+3=5\nAnswer: 5", "5", "5", "5"),
        ("Answer: 4\nno,\nAnswer:\n  5 \n", "5", "5", "5"),
        ("answer : a dog", "a dog", "a dog", None),  # release deletes "a " of integer sets' answers, not here
        ("**Answer:** 5", "5", "** 5", "5"),
        ("Answer: $5$.", "5", "$5$.", "$5$"),
        ("Answer: $5$", "5", "$5$", "5"),
        ("Answer: `[1, 2]`", "[1, 2]", "`[1, 2]`", "[1, 2]"),
        ("so \\boxed{5}", "5", None, "5"),
        ("it is 5", "5", None, None),
        ("Answer:", "5", None, None),
        ("", "5", None, None),
        ("Answer: 5" + 301 * " ", "5", None, None),
        ("Answer: " + 350 * "x", 350 * "x", 350 * "x", 350 * "x"),  # as long as the task's own
        ("Answer:\n1 2\n3 4", "1 2\n3 4", "1 2\n3 4", "1 2\n3 4"),
        ("Answer:\n```\n1 2\n3 4\n```\nDone.", "1 2\n3 4", "```\n1 2\n3 4\n```\nDone.", "1 2\n3 4"),
        ("Answer: 1 2\n3 4", "1 2", "1 2", "1 2"),  # the task's own has one line
        ("Answer: R U\nR", None, "R U\nR", "R U\nR"),  # no own: all that follows
        ("Answer: \ud800", "x", "?", "?"),
        # underscores and stars that are the answer's own, as a board's empty squares
        ("Answer:\n_ Q _\nQ _ _", "_ Q _\nQ _ _", "_ Q _\nQ _ _", "_ Q _\nQ _ _"),
        ("**Answer:**\n_ Q _\nQ _ _", "_ Q _\nQ _ _", "**\n_ Q _\nQ _ _", "_ Q _\nQ _ _"),
        ("Answer: _In, Electro", "_In, Electro", "_In, Electro", "_In, Electro"),
        ("**Answer: 1 2\n3 4**", "1 2\n3 4", "1 2\n3 4**", "1 2\n3 4"),
        ("**Final answer: 1 2\n3 4**", "1 2\n3 4", "1 2\n3 4**", "1 2\n3 4"),
        ("_Answer: 1 _\n_ 4_", "1 _\n_ 4", "1 _\n_ 4_", "1 _\n_ 4"),
        ("Answer: 2*x**2 + C", "2*x**2 + C", "2*x**2 + C", "2*x**2 + C"),
    ],
)
def test_what_is_taken_from_a_response(response, own, release, verified):
    assert gym.stated(response, own, "release") == release
    if verified is not None or release is None:
        assert gym.stated(response, own, "verified") == verified


@needs_library
def test_the_tasks_are_the_librarys():
    assert set(GYM_TASKS) == gym.load().keys() - {"composite"}


@pytest.mark.slow
@needs_library
@pytest.mark.parametrize("task", EVERY)
def test_right_and_wrong_answers_score_as_the_library_scores_them(task):
    """Every answer below goes through a whole response, JSON and the helper process, and comes back the same."""
    tried, scores, made = 0, set(), dataset(task)
    entries = [made[index] for index in range(4)]
    own = [entry["answer"] for entry in entries if entry["answer"] is not None]
    for entry in entries:
        truth = truth_of(entry)
        assert gym.unpack(truth)["metadata"] == entry["metadata"]
        for answer in (*own, *(f"{text} 1" for text in own[:1]), "17", "[1, 2]", "a b c", "None"):
            if gym.stated(f"Answer: {answer}", entry["answer"], "release") != answer:
                continue  # several lines where one is read
            try:
                wanted = float(made.score_answer(answer, entry))
            except RAISED:  # is 0.0
                wanted = 0.0
            found = compute_score(f"reasoning-gym/{task}", f"Because.\nAnswer: {answer}", truth)
            assert found == {"score": wanted, "acc": float(wanted == 1.0), "pred": answer[:200]}
            tried, scores = tried + 1, scores | {wanted}
    assert tried >= 16
    if own and task != "game_of_life_halting":  # where the library takes any text for right
        assert max(scores) == pytest.approx(1.0)
        assert min(scores) < 1


@needs_library
@pytest.mark.parametrize("judge", JUDGES)
def test_partial_credit_is_the_score_and_no_accuracy(judge):
    entry = dataset("chain_sum")[0]
    result = compute_score("reasoning-gym/chain_sum", f"Answer: {entry['answer']}0", truth_of(entry), judge=judge)
    assert 0 < result["score"] < 1
    assert result["acc"] == 0.0


@needs_library
def test_a_score_next_to_1_is_no_right_answer():
    """spell_backward adds up shares of the letters that are right, 1 - 2e-16 of them where more follows."""
    entry = dataset("spell_backward")[0] | {"answer": "ainomma"}
    result = compute_score("reasoning-gym/spell_backward", "Answer: ainomma or something else", truth_of(entry))
    assert 0.999 < result["score"] < 1
    assert result["acc"] == 0.0


@needs_library
@pytest.mark.parametrize("task", ["spiral_matrix", "n_queens", "string_insertion", "binary_matrix", "countdown"])
def test_an_answer_is_not_run_as_a_program(task, tmp_path):
    """Neither does it write a file, nor change what later answers of the same child score."""
    entry, file = dataset(task)[0], tmp_path / "written"
    write = f'__import__("pathlib").Path("{file}").write_text("x")'
    change = 'setattr(__import__("__main__"),"float",lambda value:1.0)'
    for code in (f"[{write}]", write, f"[{change}]", change, f"({change})"):
        assert compute_score(f"reasoning-gym/{task}", f"Answer: {code}", truth_of(entry))["acc"] == 0.0
    assert not file.exists()
    assert compute_score(f"reasoning-gym/{task}", "Answer: 7", truth_of(entry))["acc"] == 0.0
    if entry["answer"] and "\n" not in entry["answer"]:
        assert compute_score(f"reasoning-gym/{task}", f"Answer: {entry['answer']}", truth_of(entry))["acc"] == 1.0


@needs_library
def test_no_other_task_evaluates_text():
    """Modules of the library that call eval, exec or sympy's parser: those that are disarmed, and the generators'."""
    root = Path(importlib.util.find_spec("reasoning_gym").origin).parent
    found = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in root.rglob("*.py")
        if re.search(r"(?<![.\w])(eval|exec)\(|parse_expr\(|sympify\(", path.read_text())
    }
    helper = ast.parse((ROOT / "rpg/rewards/gym_child.py").read_text())
    tuples = {node.targets[0].id: ast.literal_eval(node.value) for node in helper.body
              if isinstance(node, ast.Assign) and node.targets[0].id in ("LITERALS", "EXPRESSIONS")}  # fmt: skip
    of_their_own_text = {"code.codeio", "algorithmic.number_sorting", "arithmetic.bitwise_arithmetic",
                         "arithmetic.basic_arithmetic", "logic.propositional_logic",
                         "arithmetic.gsm_symbolic.generators_00_49",
                         "arithmetic.gsm_symbolic.generators_50_99"}  # fmt: skip
    assert found - of_their_own_text == {*tuples["LITERALS"], *tuples["EXPRESSIONS"]}


@needs_library
def test_a_task_that_raises_scores_nothing_and_says_so(caplog):
    caplog.set_level(logging.WARNING, logger="rpg")  # with vLLM imported the root logger is at ERROR
    entry = dataset("prime_factorization")[0]
    result = compute_score("reasoning-gym/prime_factorization", "Answer: two", truth_of(entry))
    assert result == {"score": 0.0, "acc": 0.0, "pred": "two"}
    assert "score_answer raised ValueError" in caplog.text


@needs_library
@pytest.mark.parametrize(
    ("task", "answer", "endless"),
    [
        ("countdown", "9**9**9**9", True),
        ("countdown", "(" * 150 + ")" * 150, False),
        ("polynomial_multiplication", "(x+1)**99999", False),
        ("prime_factorization", "9" * 300, False),
    ],
)
def test_hostile_answers_end_in_time(task, answer, endless):
    """sympy is led to what never ends; the helper stays, and others are scored."""
    truth, over = truth_of(dataset(task)[0]), gym.sandbox.over_limit
    result = compute_score(f"reasoning-gym/{task}", f"Answer: {answer}", truth, time_limit=1.0)
    assert result["acc"] == 0.0
    assert 0 <= result["score"] < 0.1
    assert gym.sandbox.over_limit == over + endless
    entry = dataset("chain_sum")[1]
    assert compute_score("reasoning-gym/chain_sum", f"Answer: {entry['answer']}", truth_of(entry))["acc"] == 1.0
