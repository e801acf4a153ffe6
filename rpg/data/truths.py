"""Whether a file's ground truths are accepted: each is stated in a response and scored as in a run.

A truth that scores wrong rewards no response, without an error.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpg.data.readers import read_file
from rpg.diagnostics import ABSENT, Diagnostic
from rpg.registry.datasets import GYM, is_gym
from rpg.rewards import JUDGES, as_text, compute_score, is_known
from rpg.rewards.sandbox import MAX_AT_ONCE
from rpg.rewards.user_reward import example

SAMPLE = 500  # rows of a file, evenly spaced
EXAMPLES = 3


@dataclass(frozen=True)
class Trial:
    """How many ground truths were tried, row and response of the wrong ones, how many of these `verified` accepts.

    scorer: the judge, or the library of reasoning-gym's rows.
    """

    scorer: str
    tried: int
    wrong: list[tuple[int, str]]
    by_verified: int

    def diagnostic(self, key: str, value: Any = ABSENT, file: str = "") -> Diagnostic | None:
        """Return an error if no truth is accepted, a warning if some are not, else None.

        key and its value, file: for the message.
        """
        if not self.wrong:
            return None
        wrong = len(self.wrong)
        shown = "; ".join(f"row {row}, {text.splitlines()[-1]!r:.80}" for row, text in self.wrong[:EXAMPLES])
        what = f"{self.scorer} scores {wrong} of {self.tried}{file and f' of {file}'} wrong when a response states them"
        remedy = f"judge=verified accepts {self.by_verified} of these" if self.by_verified else "write the bare answers"
        level = "error" if wrong == self.tried else "warning"
        return Diagnostic(key, value, f"{what} ({shown})", f"{remedy}, or leave these rows out", level)


def try_truths(path: Path, options: Mapping[str, Any] | None = None, prompt_key: str = "prompt") -> Trial:
    """Score the ground truths of a parquet file, at most SAMPLE, in the form that their prompts ask for.

    Rows that no rule of rpg.rewards scores, or without a truth, are left out.
    options: keywords of rpg.rewards.compute_score, as in reward_kwargs.

    Raises DataError for a file that cannot be read, ValueError for options that are invalid.
    """
    options = dict(options or {})
    step = pq.read_metadata(path).num_rows // SAMPLE + 1
    cases, scorers = [], set[str]()
    for number, (_, row) in enumerate(islice(read_file(path), 0, None, step)):
        source, extra = row.get("data_source"), row.get("extra_info") or {}
        truth = (row.get("reward_model") or {}).get("ground_truth")
        if isinstance(source, str) and is_known(source) and isinstance(truth, str | int | float):
            truth = as_text(truth)
            # math-verify looks for a formula in dollars
            forms = [truth, f"${truth}$"] if any(sign in truth for sign in "\\^_") else [truth]
            responses = [example(form, row.get(prompt_key), extra) for form in forms]
            cases.append((number * step, source, truth, extra, responses))
            scorers.add(GYM if is_gym(source) else f"judge={options.get('judge', JUDGES[0])}")

    def accepted(case: tuple, keywords: Mapping[str, Any] = options) -> bool:
        _, source, truth, extra, responses = case
        return any(compute_score(source, text, truth, extra, **keywords)["acc"] == 1.0 for text in responses)

    with ThreadPoolExecutor(min(MAX_AT_ONCE, os.cpu_count() or 1)) as threads:
        verdicts = list(threads.map(accepted, cases))
    wrong = [case for case, right in zip(cases, verdicts, strict=True) if not right]
    by_verified = sum(accepted(case, {"judge": "verified"}) for case in wrong)
    return Trial(" and ".join(sorted(scorers)), len(cases), [(row, said[0]) for row, *_, said in wrong], by_verified)
