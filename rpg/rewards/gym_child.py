"""What gym.py asks reasoning-gym, in a child of the sandbox (sandbox.py)."""

import ast
import functools
import importlib
import json
import logging
import math
import os
import re
import warnings
from typing import Any

import sympy

from rpg.rewards.gym import load, unpack

DATASETS = load()
PACKAGE = "reasoning_gym"
# modules whose score_answer evaluates what a model wrote, as Python's literal or as sympy's expression
LITERALS = ("algorithmic.string_insertion", "algorithmic.spiral_matrix", "algorithmic.binary_matrix", "games.n_queens")
EXPRESSIONS = ("algebra.simple_integration", "algebra.intermediate_integration", "algebra.polynomial_multiplication",
               "games.puzzle24", "games.countdown")  # fmt: skip
NO_EXPRESSION = re.compile(r"""__|['"\[\]{}\\;:=@]|\.\s*[^\W\d]""")  # names of attributes, texts, assignments
PARSE = sympy.parse_expr  # before `disarm` puts another in its place
FUNCTIONS = {name: getattr(sympy, name) for name in ("sqrt", "cbrt", "root", "Integer", "Float", "Rational", "Symbol",
                                                     "Function", "factorial", "factorial2")}  # fmt: skip


def names() -> dict[str, Any]:
    """sympy's functions and constants, and none of what else it exports, nor a builtin of Python's."""
    known = {name: getattr(sympy, name) for name in sympy.__all__}
    mathematics = {name: value for name, value in known.items()
                   if isinstance(value, (sympy.Basic, sympy.core.function.FunctionClass))}  # fmt: skip
    return {**mathematics, **FUNCTIONS, "__builtins__": {}}


NAMES = names()


def plain_expression(text: str, *arguments: Any, **keywords: Any) -> Any:
    """sympy's parse_expr, which runs its text as Python, for texts that are mathematics; ValueError for others."""
    if NO_EXPRESSION.search(text):
        raise ValueError(f"{text[:80]!r} is no plain expression")
    return PARSE(text, *arguments, **{"global_dict": dict(NAMES), **keywords})


def disarm() -> None:
    """Let no score_answer run what a model wrote as a program."""
    for name in LITERALS:
        vars(importlib.import_module(f"{PACKAGE}.{name}"))["eval"] = ast.literal_eval  # before the builtin of that name
    sympy.parse_expr = plain_expression
    for name in EXPRESSIONS:
        module = vars(importlib.import_module(f"{PACKAGE}.{name}"))
        if "parse_expr" in module:  # the others call sympy's
            module["parse_expr"] = plain_expression


disarm()


@functools.lru_cache(maxsize=8)
def task_of(name: str, config: str):
    """The dataset whose score_answer it is; `config` is JSON of its settings, as a key of the cache."""
    dataset, settings = DATASETS[name]
    return dataset(config=settings(**unpack(config)))


def answer(task: str, truth: str, said: str | None) -> dict[str, Any]:
    """{"score": what score_answer returns}, or {"error": why there is no finite one}."""
    entry = unpack(truth)
    config = json.dumps(json.loads(truth)["config"])
    try:
        value = float(task_of(task, config).score_answer(said, {**entry, "question": ""}))
    except Exception as error:  # noqa: BLE001  # whatever a task raises at what a model wrote
        return {"error": f"score_answer raised {type(error).__name__}: {error}"[:500]}
    return {"score": value} if math.isfinite(value) else {"error": f"score_answer returned {value}"}


def warm_up() -> None:
    """Score one answer; nothing of what tasks print or warn of reaches the worker's output from here on."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    answer("chain_sum", '{"answer":"3","config":{},"metadata":{}}', "3")
