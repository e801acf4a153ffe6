"""`rpg data check`: whether parquet files can be trained and evaluated on."""

import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from rpg.data.prompts import load_tokenizer, prompt_lengths
from rpg.data.readers import read_file
from rpg.data.tables import NESTED, answer_text, as_integer_text, digest, has_lost_digits, without_solution
from rpg.data.template import problem_of, question
from rpg.diagnostics import ABSENT, Diagnostic, Diagnostics, Level, UserError, fitted, shown
from rpg.registry.datasets import is_gym, of_source
from rpg.rewards import as_text, compute_score, is_known
from rpg.rewards.extract import ANSWER_FORMS, ANSWER_MARK, example, few_shot_answer
from rpg.rewards.sandbox import MAX_AT_ONCE

NO_ANSWERS = ("", "nan", "none", "null", "n/a", "na", "unknown", "?", "-", "[invalid]", "proof", "notfound")
SAMPLE = 500  # rows of a file, evenly spaced
EXAMPLES = 3
UNKNOWN = "unknown"  # split of a row without extra_info.split
TRUTH = "reward_model.ground_truth"


@dataclass
class FileCheck:
    """What the check of one file finds: diagnostics, and counts of rows by data_source and by answer.

    problems: digest of each problem -> its first row, and the digests of that row's answer and earlier messages.
    """

    path: Path
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    sources: Counter[str] = field(default_factory=Counter)
    splits: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    problems: dict[bytes, tuple[int, bytes, bytes]] = field(default_factory=dict)
    lengths: str = ""

    def add(self, key: str, what: str, remedy: str, row: int | None = None, level: Level = "error") -> None:
        """Record a diagnostic of a column, for one row or the whole file."""
        self.diagnostics.add(Diagnostic(key, ABSENT, what, remedy, level), row)

    def summary(self) -> str:
        """Return the counts of the file in one line."""
        sources = ", ".join(f"{shown(name):.40} ({count})" for name, count in self.sources.most_common(5))
        rows, splits = self.sources.total(), ", ".join(sorted(self.splits)) or UNKNOWN
        line = f"{self.path}: {rows} rows, {len(self.problems)} problems; data_source {sources}; split {splits}"
        for answer, count in self.answers.most_common(1):  # what a constant answer scores
            line += f"; most frequent answer {answer!r:.40}: {count / rows:.0%}"
        return line + self.lengths


def check_files(paths: list[Path], model: str | None, judge: str | None) -> int:
    """Check every file and print the diagnostics; return 0 only if all files can be trained on.

    model: directory whose tokenizer counts prompts. judge: that of the run; None: a custom reward function scores the
    rows, so data_source, answers and template are not checked.
    """
    tokenizer = load_tokenizer(model) if model else None
    checks = [check_file(path, judge, tokenizer) for path in paths]
    check_overlap(checks)
    for check in checks:
        print(*fitted([check.summary()], 2), *fitted(check.diagnostics.lines(), 6), sep="\n")
    levels: tuple[Level, ...] = ("error", "warning")
    errors, warnings = (sum(check.diagnostics.count(level) for check in checks) for level in levels)
    verdict = "not ready to train on" if errors else "can be trained on"
    print(f"{len(checks)} files, {errors} errors, {warnings} warnings: {verdict}")
    return 1 if errors else 0


def check_file(path: Path, judge: str | None = "release", tokenizer: Any = None) -> FileCheck:
    """Check one file; errors on reading it become diagnostics. judge: as in check_files."""
    check = FileCheck(path)
    try:
        if path.suffix != ".parquet" and path.is_file():
            raise UserError(f"{path}: not a .parquet file; `rpg data build --from {path}` makes one")
        for number, (_, row) in enumerate(read_file(path)):
            check_row(check, number, row, bool(judge))
        if not check.sources:
            raise UserError("no rows; build or download it again")
    except UserError as error:
        what, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        check.add("file", what, remedy or "give another file")
        return check
    if judge:
        for source, count in check.sources.items():
            if not is_known(source):
                what = f"{shown(source)}, {count} rows: no rule of rpg scores it"
                check.add("data_source", what, score_remedy(source))
        if diagnostic := fault_of_truths(path, {"judge": judge}, "judge", judge):
            check.diagnostics.add(diagnostic)
    if tokenizer:
        lengths, refused = prompt_lengths(tokenizer, (row.get("prompt") for _, row in read_file(path)))
        known = [length for length in lengths if length] or [0]
        check.lengths = f"; prompts of {min(known)} to {max(known)} tokens, median {median(known):.0f}"
        if refused:
            check.add("prompt", f"{len(refused)} rows, first {refused[0]}", "change the rows, or the chat template")
    return check


def check_row(check: FileCheck, number: int, row: dict[str, Any], by_rule: bool = True) -> None:
    """Record diagnostics of `row` and its problem for the checks across rows. by_rule: a judge scores the file."""
    source = str(row.get("data_source"))
    check.sources[source] += 1
    for name in ("extra_info", "reward_model"):
        if not isinstance(value := row.get(name), dict | None):
            check.add(name, f"{value!r:.60} is not a struct", "write a struct, not JSON text", number)
            return
    extra, truth = row.get("extra_info") or {}, (row.get("reward_model") or {}).get("ground_truth")
    check.splits.add(str(extra.get("split") or UNKNOWN))
    if truth is not None:
        check.answers[str(truth)[:200]] += 1
    has_rule = by_rule and of_source(source) is not None  # not reasoning-gym
    is_number = isinstance(truth, float) and not has_lost_digits(truth)
    is_answer = is_number or (isinstance(truth, str | int) and not isinstance(truth, bool))
    if has_rule and (not is_answer or str(truth).strip().lower() in NO_ANSWERS):
        remedy = "give the right answer as text, or leave the row out"
        check.add(TRUTH, f"{truth!r:.60} is no answer", remedy, number)
    if fault := fault_of_prompt(row, extra, has_rule):
        check.add("prompt", *fault, number)
    elif text := problem_of(row):
        answer, context = digest(str(truth)), digest(str(row["prompt"][:-1]))  # such as a system message
        first, first_answer, first_context = check.problems.setdefault(digest(text), (number, answer, context))
        if first_answer != answer and first_context == context:
            what = f"{truth!r:.60}, but row {first} asks the same and has another answer"
            check.add(TRUTH, what, "keep only the correct one", number, "error" if by_rule else "warning")


def fault_of_prompt(row: dict[str, Any], extra: dict[str, Any], has_rule: bool) -> tuple[str, str] | None:
    """Return what is wrong with a row's prompt, and the remedy; has_rule: a judge reads the responses."""
    content, prompt = question(row), row.get("prompt") or [{}]
    if content is None or prompt[-1].get("role") != "user":
        return f"{prompt!r:.60} is not a message from the user", 'give [{"role": "user", "content": ...}]'
    if not problem_of(row):
        return "has no text of a problem", "leave the row out"
    asks = ANSWER_MARK.search(content) or any(sign in content for sign in ANSWER_FORMS)
    if has_rule and few_shot_answer("", extra) is None and not asks:
        remedy = 'ask for a last line "Answer: ..." (rpg.data.template.format_prompt); other answers score -1'
        return "does not ask for the form of the answer", remedy
    return None


def score_remedy(data_source: str) -> str:
    """Return what to do about a data_source without a rule."""
    if is_gym(data_source):
        return "reasoning-gym scores it: pip install 'rpg-verl[gym]'"
    return "check and train with --reward FILE, or build the file with --data-source MATH or gsm8k"


def check_overlap(checks: list[FileCheck]) -> None:
    """Find problems in two files whose rows are not all of one split."""
    for first, second in combinations(sorted(checks, key=lambda check: "train" not in check.splits), 2):
        if len(first.splits | second.splits) == 1 and first.splits != {UNKNOWN}:  # may overlap
            continue
        for key in sorted(first.problems.keys() & second.problems.keys(), key=lambda key: second.problems[key]):
            what = f"also row {first.problems[key][0]} of {first.path}"
            remedy = f"contamination: build the training file with --exclude {second.path}"
            second.add("prompt", what, remedy, second.problems[key][0])


def fault_of_truths(
    path: Path, options: Mapping[str, Any] | None, key: str, value: Any = ABSENT, prompt_key: str = "prompt"
) -> Diagnostic | None:
    """Return an error if no ground truth of a parquet file is accepted, a warning if some are not, else None.

    A truth that scores wrong rewards no response, without an error.

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
            # of ["3"] a model writes 3
            stated = text[2:-2] if NESTED.match(text) else without_solution(answer_text(text, str(path)))
            stated = (as_integer_text(stated) if rule and rule.has_integers else "") or stated
            # math-verify looks for a formula, or a list, in dollars
            forms = [stated, f"${stated}$"] if any(sign in stated for sign in "\\^_,") else [stated]
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
    shown = "; ".join(f"row {row}, {responses[0].splitlines()[-1]!r:.80}" for row, *_, responses in wrong[:EXAMPLES])
    what = f"{len(wrong)} of {len(cases)} in {path} score wrong when a response states them ({shown})"
    by_verified = sum(accepted(case, {"judge": "verified"}) for case in wrong)
    remedy = f"judge=verified accepts {by_verified} of these, or" if by_verified else "write the bare answers, or"
    return Diagnostic(key, value, what, f"{remedy} leave these rows out", "warning" if any(verdicts) else "error")
