"""Whether a judge accepts a file's ground truths: each is stated in a response and scored as in a run.

A truth that scores wrong rewards no response, without an error.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpg.data.readers import read_file
from rpg.diagnostics import Diagnostic
from rpg.rewards import JUDGES, as_text, compute_score, gym_sandbox, is_known, release
from rpg.rewards.sandbox import MAX_AT_ONCE
from rpg.rewards.user_reward import example

SAMPLE = 500  # rows of a file, evenly spaced
EXAMPLES = 3


@dataclass(frozen=True)
class Stated:
    """A ground truth, the row that has it, and responses that state it in the form that its prompt asks for."""

    row: int
    source: str
    truth: str
    extra: dict[str, Any]
    responses: tuple[str, ...]

    def accepted(self, options: Mapping[str, Any]) -> bool:
        """Return whether one of the responses is right. options: keywords of rpg.rewards.compute_score."""
        scores = (compute_score(self.source, text, self.truth, self.extra, **options) for text in self.responses)
        return any(score["acc"] == 1.0 for score in scores)


@dataclass(frozen=True)
class Trial:
    """How many ground truths were tried, those that the judge scores wrong, and how many of them `verified` accepts."""

    judge: str
    tried: int
    wrong: tuple[Stated, ...]
    by_verified: int

    def diagnostic(self, key: str = "judge", file: str = "") -> Diagnostic | None:
        """Return an error if no truth is accepted, a warning if some are not, else None. file: for the message."""
        if not self.wrong:
            return None
        wrong = len(self.wrong)
        ends = [(stated.row, stated.responses[0].splitlines()[-1]) for stated in self.wrong[:EXAMPLES]]
        shown = "; ".join(f"row {row}, {end!r:.80}" for row, end in ends)
        what = f"scores {wrong} of {self.tried} ground truths{file and f' of {file}'} wrong when a response states them"
        remedy = f"judge=verified accepts {self.by_verified} of these" if self.by_verified else "write the bare answers"
        level = "error" if wrong == self.tried else "warning"
        return Diagnostic(key, self.judge, f"{what} ({shown})", f"{remedy}, or leave these rows out", level)


def try_truths(path: Path, options: Mapping[str, Any] | None = None, prompt_key: str = "prompt") -> Trial:
    """Score the ground truths of a parquet file, at most SAMPLE.

    Rows that no rule of rpg.rewards scores, or without a truth, are left out.
    options: keywords of rpg.rewards.compute_score, as in reward_kwargs.

    Raises DataError for a file that cannot be read, ValueError for options that are invalid.
    """
    options = dict(options or {})
    step = pq.read_metadata(path).num_rows // SAMPLE + 1
    cases = []
    for number, (_, row) in enumerate(islice(read_file(path), 0, None, step)):
        source, extra = row.get("data_source"), row.get("extra_info") or {}
        truth = (row.get("reward_model") or {}).get("ground_truth")
        if isinstance(source, str) and is_known(source) and isinstance(truth, str | int | float):
            truth = as_text(truth)
            responses = responses_with(truth, row.get(prompt_key), extra)
            cases.append(Stated(number * step, source, truth, extra, responses))
    try:
        with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
            verdicts = threads.map(lambda case: case.accepted(options), cases)
            wrong = tuple(case for case, right in zip(cases, verdicts, strict=True) if not right)
    finally:
        release.sandbox.stop()  # a run that starts now lasts for hours
        gym_sandbox.stop()
    by_verified = sum(case.accepted({"judge": "verified"}) for case in wrong)
    return Trial(options.get("judge", JUDGES[0]), len(cases), wrong, by_verified)


def responses_with(truth: str, prompt: Any, extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return responses with this answer; LaTeX also in dollars, where math-verify looks for a formula."""
    forms = (truth, f"${truth}$") if any(sign in truth for sign in "\\^_") else (truth,)
    return tuple(example(form, prompt, extra) for form in forms)
