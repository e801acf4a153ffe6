"""The release's prompt template, a fixed text around every problem; the problem in the prompt of a row."""

import re
from typing import Any

PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
# the end of prompts without raw_problem: of verl's script for MATH, of Qwen's prompt, and of Eurus-2-RL
ASKS_FOR_BOX = re.compile(r"(?:Let's think|Please reason|Present the answer)[^.\n]*\\boxed\{[^{}]*\}\.?\s*$")
SUFFIX = '\n\nRemember to put your answer on its own line after "Answer:".'
QUESTION = "{question}"  # placeholder of the problem in a custom template


def format_prompt(problem: str, template: str | None = None) -> str:
    """Return the user message for `problem`: the release's template around it, or `template` with {question}."""
    return PREFIX + problem + SUFFIX if template is None else template.replace(QUESTION, problem)


def problem_of(row: dict[str, Any]) -> str | None:
    """Return the problem in a row's prompt, or None without a readable prompt.

    DAPO-Math-17k is published with the release's template; in other prompts the problem is found by extra_info.
    """
    content, extra = question(row) or "", row.get("extra_info")
    for name in ("raw_problem", "question"):  # ours, verl's for gsm8k
        raw = extra.get(name) if isinstance(extra, dict) else None
        if isinstance(raw, str) and raw.strip() and raw.strip() in content:
            return raw.strip()
    return bare(content) or None


def bare(text: str) -> str:
    """Return a text without the template of the release, or the suffix of another."""
    return ASKS_FOR_BOX.sub("", text.removesuffix(SUFFIX)).removeprefix(PREFIX).strip()


def question(row: dict[str, Any]) -> str | None:
    """Return the last message of a row's prompt, or None without a readable prompt."""
    prompt = row.get("prompt")
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None
