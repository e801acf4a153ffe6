"""Whether a judge accepts a file's ground truths: each is stated in a response and scored as in a run.

A truth that scores wrong rewards no response, without an error.
"""

import random
import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpg.diagnostics import Diagnostic
from rpg.rewards import JUDGES, as_text, compute_score, is_known, release
from rpg.rewards.extract import ANSWER_END
from rpg.rewards.sandbox import MAX_AT_ONCE
from rpg.rewards.user_reward import example

SAMPLE = 500  # rows of a file, drawn by seed 0
SECONDS = 30.0  # then the other rows are not tried; math-verify takes up to 25 ms for a usual answer
EXAMPLES = 3
LATEX = re.compile(r"[\\^_]")  # responses have it in dollars, where math-verify looks for a formula


@dataclass(frozen=True, eq=False)
class Stated:
    """A ground truth, the row that has it, and the end of a response that states it."""

    row: int
    source: str
    truth: str
    prompt: Any
    extra: Mapping[str, Any] = field(default_factory=dict)

    def responses(self) -> list[str]:
        """Return responses in the form that the prompt asks for: the truth, LaTeX also in dollars."""
        return [self.response(self.truth), *([self.response(f"${self.truth}$")] if LATEX.search(self.truth) else [])]

    def response(self, answer: str) -> str:
        """Return a response with this answer."""
        return example(answer, self.prompt, self.extra)


@dataclass(frozen=True)
class Trial:
    """How many ground truths were tried, and those that the judge scores wrong.

    in_dollars, by_other: how many of these it accepts as $TRUTH$, and how many the other judge accepts.
    """

    judge: str
    tried: int
    wrong: tuple[Stated, ...]
    in_dollars: int = 0
    by_other: int = 0

    def diagnostic(self, key: str = "judge", file: str = "") -> Diagnostic | None:
        """Return an error if no truth is accepted, a warning if some are not, else None. file: for the message."""
        if not self.wrong:
            return None
        wrong = len(self.wrong)
        ends = [(stated.row, stated.responses()[0].splitlines()[-1]) for stated in self.wrong[:EXAMPLES]]
        shown = "; ".join(f"row {row}, {end!r:.80}" for row, end in ends)
        of_file = f" of {file}" if file else ""
        what = f"scores {wrong} of {self.tried} ground truths{of_file} wrong when a response states them"
        ways = [(self.by_other, f"judge={_other(self.judge)}", ""), (self.in_dollars, "this judge", " inside $...$")]
        remedies = [f"{way} accepts {count} of these {wrong}{form}" for count, way, form in ways if count]
        remedy = "; ".join(remedies) or "no judge accepts them: write the bare answers, or leave these rows out"
        level = "error" if wrong == self.tried else "warning"
        return Diagnostic(key, self.judge, f"{what} ({shown})", remedy, level)


def try_truths(path: Path, options: Mapping[str, Any] | None = None, prompt_key: str = "prompt") -> Trial:
    """Score the ground truths of a parquet file, at most SAMPLE, each in the form that its prompt asks for.

    Rows that no rule of rpg.rewards scores, or without a truth, are left out.
    options: keywords of rpg.rewards.compute_score, as in reward_kwargs.

    Raises OSError or ArrowException for a file that cannot be read, ValueError for options that are invalid.
    """
    options = dict(options or {})
    judge = options.get("judge", JUDGES[0])

    @cache
    def score(source: str, response: str, truth: str, answer_end: str, judged: str) -> bool:
        keywords: dict[str, Any] = options if judged == judge else {"judge": judged}
        return compute_score(source, response, truth, {ANSWER_END: answer_end}, **keywords)["acc"] == 1.0

    def accepted(cases: list[Stated], judged: str, in_dollars: bool = False) -> list[bool | None]:
        end = time.monotonic() + SECONDS

        def verdict(stated: Stated) -> bool | None:
            if time.monotonic() > end:
                return None
            answer_end = stated.extra.get(ANSWER_END) or ""
            responses = [stated.response(f"${stated.truth}$")] if in_dollars else stated.responses()
            return any(score(stated.source, response, stated.truth, answer_end, judged) for response in responses)

        with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
            return list(threads.map(verdict, cases))

    sample = list(_sample(path, prompt_key))
    try:
        verdicts = accepted(sample, judge)
        wrong = [stated for stated, right in zip(sample, verdicts, strict=True) if right is False]
        in_dollars = accepted(wrong, judge, in_dollars=True).count(True)
        by_other = accepted(wrong, _other(judge)).count(True)
    finally:
        release.sandbox.stop()  # a run that starts now lasts for hours
    return Trial(judge, len(verdicts) - verdicts.count(None), tuple(wrong), in_dollars, by_other)


def _sample(path: Path, prompt_key: str) -> Iterator[Stated]:
    """Yield the truths of a sample of the rows, those that can be scored."""
    with pq.ParquetFile(path) as file:
        count, begin = file.metadata.num_rows, 0
        drawn = sorted(random.Random(0).sample(range(count), min(count, SAMPLE)))
        for batch in file.iter_batches(columns=["data_source", prompt_key, "reward_model", "extra_info"]):
            for number in drawn[bisect_left(drawn, begin) : bisect_left(drawn, begin + len(batch))]:
                (row,) = batch.slice(number - begin, 1).to_pylist()
                reward_model, extra = (
                    value if isinstance(value := row.get(name), dict) else {} for name in ("reward_model", "extra_info")
                )
                source, truth = row.get("data_source"), reward_model.get("ground_truth")
                if isinstance(source, str) and is_known(source) and isinstance(truth, str | int | float):
                    yield Stated(number, source, as_text(truth), row.get(prompt_key), extra)
            begin += len(batch)


def _other(judge: str) -> str:
    return next(name for name in JUDGES if name != judge)
