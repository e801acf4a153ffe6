"""Whether a file's ground truths are accepted: each is stated in a response and scored as in a run.

A truth that scores wrong rewards no response, without an error.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpg.data.readers import read_file
from rpg.data.tables import answer_text, as_integer_text
from rpg.diagnostics import ABSENT, Diagnostic
from rpg.registry.datasets import of_source
from rpg.rewards import as_text, compute_score, is_known
from rpg.rewards.extract import example
from rpg.rewards.sandbox import MAX_AT_ONCE

SAMPLE = 500  # rows of a file, evenly spaced
EXAMPLES = 3


def fault_of_truths(
    path: Path, options: Mapping[str, Any] | None, key: str, value: Any = ABSENT, prompt_key: str = "prompt"
) -> Diagnostic | None:
    """Return an error if no ground truth of a parquet file is accepted, a warning if some are not, else None.

    Each is stated in the form that its prompt asks for, an integer as a model writes it: 27 for the truth 27.0. Tries
    at most SAMPLE; rows that no rule of rpg.rewards scores, or without a truth, are left out.

    options: keywords of rpg.rewards.compute_score, as in reward_kwargs. key and its value: for the message.

    Raises UserError for a file that cannot be read, ValueError for options that are invalid.
    """
    step = pq.read_metadata(path).num_rows // SAMPLE + 1
    cases = []
    for number, (_, row) in enumerate(islice(read_file(path), 0, None, step)):
        source, extra, model = (row.get(name) for name in ("data_source", "extra_info", "reward_model"))
        truth = model.get("ground_truth") if isinstance(model, dict) and isinstance(extra, dict | None) else None
        if isinstance(source, str) and is_known(source) and isinstance(truth, str | int | float):
            text, rule = as_text(truth), of_source(source)
            stated = (as_integer_text(text) if rule and rule.has_integers else "") or answer_text(text, str(path))
            # math-verify looks for a formula in dollars
            forms = [stated, f"${stated}$"] if any(sign in stated for sign in "\\^_") else [stated]
            responses = [example(form, row.get(prompt_key), extra) for form in forms]
            cases.append((number * step, source, text, extra, responses))

    def accepted(case: tuple[Any, ...], judge: Mapping[str, Any]) -> bool:
        _, source, truth, extra, responses = case
        return any(compute_score(source, text, truth, extra, **judge)["acc"] == 1.0 for text in responses)

    with ThreadPoolExecutor(min(MAX_AT_ONCE, os.cpu_count() or 1)) as threads:
        verdicts = list(threads.map(lambda case: accepted(case, options or {}), cases))
    if all(verdicts):
        return None
    wrong = [case for case, right in zip(cases, verdicts, strict=True) if not right]
    shown = "; ".join(f"row {row}, {said[0].splitlines()[-1]!r:.80}" for row, *_, said in wrong[:EXAMPLES])
    what = f"{len(wrong)} of {len(cases)} in {path} score wrong when a response states them ({shown})"
    by_verified = sum(accepted(case, {"judge": "verified"}) for case in wrong)
    remedy = f"judge=verified accepts {by_verified} of these, or" if by_verified else "write the bare answers, or"
    return Diagnostic(key, value, what, f"{remedy} leave these rows out", "warning" if any(verdicts) else "error")
