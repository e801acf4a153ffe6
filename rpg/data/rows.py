"""Problems of rows in verl's schema."""

from pathlib import Path
from typing import Any

from rpg.data.build import digest
from rpg.data.readers import DataError, read_file
from rpg.data.template import strip_prompt


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a file, and print how many there are. Raises DataError for none."""
    keys = {digest(text) for _, row in read_file(path) if (text := problem_of(row))}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; give a file that `rpg data build` wrote")
    print(f"{path}: {len(keys)} problems to keep out")
    return keys


def problem_of(row: dict[str, Any]) -> str | None:
    """Return the problem in a row's prompt, or None without a readable prompt.

    In a prompt with another template, or with solved examples, it is known from extra_info.
    """
    content, extra = question(row) or "", row.get("extra_info") or {}
    for raw in (extra.get("raw_problem"), extra.get("question")):  # ours, verl's for gsm8k
        if isinstance(raw, str) and raw.strip() and raw.strip() in content:
            return raw.strip()
    return strip_prompt(content).strip() or None


def question(row: dict[str, Any]) -> str | None:
    """Return the last message of a row's prompt, or None without a readable prompt."""
    prompt = row.get("prompt")
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None
