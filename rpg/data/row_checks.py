"""`rpg data check`: check whether parquet files can be trained and evaluated on."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rpg.data.build import digest, near_digest
from rpg.data.prompts import PromptTokenizer, count_prompts
from rpg.data.published import problem_text, question
from rpg.data.readers import DataError, read_file
from rpg.data.row_model import row_diagnostics, score_remedy, short
from rpg.data.truths import Trial, try_truths
from rpg.diagnostics import ABSENT, Diagnostic, Diagnostics, Level, fitted, shown
from rpg.rewards import is_known

MAX_PROMPT_LENGTH = 2048  # default of the launch scripts
FITTING = "raise data.max_prompt_length, or data.filter_overlong_prompts=true leaves such rows out"
SAME_TYPES = "write all with the same columns and types, such as with one `rpg data build` per set"
OF_DATASETS = (ValueError, TypeError, KeyError, AttributeError, NotImplementedError, pa.ArrowException)
NEARLY = "differ only in case or the last full stop from"
TRUTH = "reward_model.ground_truth"


@dataclass(slots=True)
class Occurrences:
    """The rows of one problem, without text, to save memory."""

    first_row: int
    answer: bytes
    count: int = 0


@dataclass
class FileCheck:
    """The state of the check of one file.

    own_reward: as in check_file; unscored: rows by data_source without a rule; near: the first problem of each
    near_digest; near_repeats: problems that have that of an earlier one; trial: that of the ground truths.
    """

    path: Path
    own_reward: bool = False
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    rows: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    problems: dict[bytes, Occurrences] = field(default_factory=dict)
    near: dict[bytes, bytes] = field(default_factory=dict)
    near_repeats: int = 0
    trial: Trial | None = None

    def add(self, key: str, what: str, remedy: str, row: int | None = None, level: Level = "error") -> None:
        """Record a diagnostic of a column, for one row or the whole file."""
        self.diagnostics.add(Diagnostic(key, ABSENT, what, remedy, level), row)

    @property
    def role(self) -> str:
        """'train', 'test', or 'unknown' without extra_info.split."""
        return next(iter(self.splits)) if len(self.splits) == 1 else "unknown"

    def summary(self) -> str:
        """Return the counts of the file in one line."""
        counts = [problem.count for problem in self.problems.values()]
        if not counts:
            return f"{self.path}: {self.rows} rows"
        repeats = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        sources = ", ".join(f"{shown(name):.40} ({count})" for name, count in self.sources.most_common(5))
        tried = ""
        if self.trial and self.trial.tried:
            right = self.trial.tried - len(self.trial.wrong)
            tried = f", judge={self.trial.judge} accepts {right} of {self.trial.tried}"
        return (
            f"{self.path}: {self.rows} rows, {len(counts)} problems, each {repeats} times; data_source {sources}; "
            f"split {self.role}; {self.diagnostics.count('error', TRUTH)} ground truths unusable{tried}"
        )


def check_files(
    paths: list[Path], tokenizer: str | None, max_prompt_length: int, judge: str | None, as_json: bool
) -> int:
    """Check every file and print the diagnostics; return 0 only if all files can be trained on.

    judge: that of the run; None: a custom reward function scores the rows, so data_source, answers and template are not
    checked.
    """
    loaded = None
    if tokenizer:
        try:
            loaded = PromptTokenizer(tokenizer)
        except DataError as error:
            raise DataError(f"--tokenizer: {error}") from error
    checks = [check_file(path, own_reward=judge is None) for path in paths]
    if judge:
        for check in checks:
            check_truths(check, judge)
    if loaded:
        for check in checks:
            check_lengths(check, loaded, max_prompt_length)
    check_overlap(checks)
    check_types(checks)
    errors = sum(check.diagnostics.count("error") for check in checks)
    warnings = sum(check.diagnostics.count("warning") for check in checks)
    if as_json:
        files = [
            {"file": str(check.path), "rows": check.rows, "diagnostics": check.diagnostics.records()}
            for check in checks
        ]
        print(json.dumps({"files": files, "errors": errors, "warnings": warnings}, indent=2))
    else:
        for check in checks:
            print(*fitted([check.summary()], 2), *fitted(check.diagnostics.lines(), 6), sep="\n")
        verdict = "not ready to train on" if errors else "can be trained on"
        print(f"{len(checks)} files, {errors} errors, {warnings} warnings: {verdict}")
    return 1 if errors else 0


def check_file(path: Path, own_reward: bool = False) -> FileCheck:
    """Check one file; errors on reading it become diagnostics.

    own_reward: a custom reward function scores the rows.
    """
    check = FileCheck(path, own_reward)
    if path.is_dir():
        check.add("file", "is a folder", "name its parquet files")
        return check
    if path.suffix != ".parquet":
        remedy = f"build one: rpg data build --from {path} --question COLUMN --answer COLUMN"
        check.add("file", f"name ends in {path.suffix!r}", remedy)
        return check
    try:
        for _, row in read_file(path):
            check_row(check, row)
            check.rows += 1
    except DataError as error:
        what, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        check.add("file", what, remedy)
        return check
    if not check.rows:
        check.add("file", "no rows", "build or download it again")
    for source, count in check.unscored.items():
        check.add("data_source", f"{shown(source)}, {count} rows: no rule of rpg scores it", score_remedy(source))
    check_repeats(check)
    if fault := unreadable(path, pq.read_schema(path)):
        check.add("file", *fault)
    return check


def check_row(check: FileCheck, row: dict[str, Any]) -> None:
    """Record diagnostics of `row` and its problem for the checks across rows."""
    is_prompt_broken, source = False, row.get("data_source")
    unscored = False
    if isinstance(source, str) and not check.own_reward and not is_known(source):
        unscored = True  # reported once; rules on answers have no meaning
        check.unscored[source] += 1
    for diagnostic in row_diagnostics(row, check.own_reward or unscored):
        check.diagnostics.add(diagnostic, check.rows)
        is_prompt_broken |= diagnostic.level == "error" and diagnostic.key.startswith("prompt")
    structs = (row.get(name) for name in ("extra_info", "reward_model"))
    extra, reward_model = (value if isinstance(value, dict) else {} for value in structs)
    check.sources[str(source)] += 1
    check.splits[str(extra.get("split") or "unknown")] += 1
    for name, value in row.items():
        if isinstance(value, list) and len({len(part) for part in value if isinstance(part, list)}) > 1:
            what = "lists of different lengths, which verl cannot repeat for a group's responses"
            check.add(name, what, "put the column into extra_info: rpg data build --keep", check.rows)
    text, truth = extra.get("raw_problem"), reward_model.get("ground_truth")
    if not isinstance(text, str) or not text.strip() or text.strip() not in (question(row) or ""):
        text = problem_text(row)  # in the release's template; another one is only known beside the raw problem
    if not text or is_prompt_broken:
        return
    key, answer = digest(text), digest(str(truth))
    problem = check.problems.get(key)
    if problem is None:
        problem = check.problems[key] = Occurrences(check.rows, answer)
        check.near_repeats += check.near.setdefault(near_digest(text), key) != key
    elif problem.answer != answer:
        what = f"{short(truth)}, but row {problem.first_row} asks the same and has another answer"
        level = "warning" if check.own_reward else "error"
        check.add(TRUTH, what, "keep only the correct one", check.rows, level)
    problem.count += 1


def check_truths(check: FileCheck, judge: str) -> None:
    """Record the ground truths that the judge does not accept."""
    if check.diagnostics.count("error", "file"):  # not readable, or without rows
        return
    check.trial = try_truths(check.path, {"judge": judge})
    if diagnostic := check.trial.diagnostic():
        check.diagnostics.add(diagnostic)


def check_lengths(check: FileCheck, tokenizer: PromptTokenizer, limit: int) -> None:
    """Record prompts that the chat template refuses, or of which verl would keep only the last `limit` tokens."""
    if check.diagnostics.count("error", "file"):  # not readable, or without rows
        return
    count = count_prompts((row.get("prompt") for _, row in read_file(check.path)), tokenizer, limit)
    if count.unusable:
        what = f"{count.unusable} rows, first {count.first_unusable}"
        check.add("prompt", what, "change them, or the chat template")
    if count.too_long:
        what = f"{count.too_long} of {count.rows} are over {limit} tokens, up to {count.longest}"
        remedy = f"verl would cut their beginning; {FITTING}"
        check.add("prompt", f"{what} (first: row {count.first_too_long})", remedy)


def check_repeats(check: FileCheck) -> None:
    """Check splits and repetitions of problems."""
    problems = check.problems.values()
    if check.near_repeats:
        check.add("prompt", f"{check.near_repeats} problems {NEARLY} another", "keep one of each", level="warning")
    if len(check.splits) > 1:
        what = ", ".join(f"{name} ({count})" for name, count in check.splits.most_common())
        check.add("extra_info.split", f"mixed: {what}", "a file has one split; write two files")
    counts = Counter(problem.count for problem in problems)
    usual = counts.most_common(1)[0][0] if counts else 0
    repeats = sum(problem.count - 1 for problem in problems)
    if repeats and (check.role == "train" or (check.role == "unknown" and usual != max(counts))):
        remedy = "an epoch then takes that much longer; deduplicate with `rpg data build`"
        check.add("prompt", f"{repeats} rows repeat {len(problems)} problems", remedy, level="warning")
    elif check.role == "test":
        for problem in problems:
            if problem.count != usual:
                what = f"the problem has {problem.count} rows, most have {usual}"
                check.add("prompt", what, "repeat every problem equally, or means are skewed", problem.first_row)


def check_overlap(checks: list[FileCheck]) -> None:
    """Find problems in two files: an error unless both files belong to the same split."""
    for first, second in combinations(checks, 2):
        if first.path.resolve() == second.path.resolve():
            second.add("file", "given twice", "name each file once")
            continue
        level: Level = "error"
        remedy = "contamination: build the training file with --exclude THIS FILE"
        if first.role == second.role != "unknown":
            level, remedy = "warning", "both files have the same split: they count twice"
        shared = first.problems.keys() & second.problems.keys()
        for key in sorted(shared, key=lambda key: second.problems[key].first_row):
            what = f"also row {first.problems[key].first_row} of {first.path}"
            second.add("prompt", what, remedy, second.problems[key].first_row, level)
        pairs = [(first.near[key], second.near[key]) for key in first.near.keys() & second.near.keys()]
        rows = sorted(
            (second.problems[later].first_row, first.problems[earlier].first_row)
            for earlier, later in pairs
            if later not in first.problems
        )
        if rows:
            what = f"{len(rows)} problems {NEARLY} those of {first.path} (first: row {rows[0][0]} and its {rows[0][1]})"
            second.add("prompt", what, "leave them out if they are the same", level="warning")


def check_types(checks: list[FileCheck]) -> None:
    """Find files of one split that verl cannot concatenate: an error, or a warning if the split is unknown."""
    for role in ("train", "test", "unknown"):
        of_split = [check for check in checks if check.role == role and not check.diagnostics.count("error", "file")]
        if why := misfit([pq.read_schema(check.path) for check in of_split]):
            files = ", ".join(str(check.path) for check in of_split)
            level: Level = "warning" if role == "unknown" else "error"
            of_split[-1].add("file", f"verl cannot concatenate {files} ({why})", SAME_TYPES, level=level)


def misfit(schemas: Sequence[pa.Schema]) -> str:
    """Return why verl cannot concatenate files of these schemas, or "".

    Asks `datasets`, as verl does, with one row of nulls for each file.
    """
    if all(schema.equals(schemas[0], check_metadata=True) for schema in schemas):
        return ""
    import datasets  # half a second

    try:
        rows = [datasets.Dataset(pa.Table.from_pylist([{}], schema=schema)) for schema in schemas]
        datasets.concatenate_datasets(rows)
    except OF_DATASETS as error:
        return _first_line(error)
    return ""


def unreadable(path: str | Path, schema: pa.Schema) -> tuple[str, str] | None:
    """Return why `datasets`, with which verl loads files, cannot read a file of this schema, and the remedy, or None.

    The metadata of a file that another version of it wrote may name a feature type that this version lacks.
    """
    import datasets

    def reason(schema: pa.Schema) -> str:
        try:
            datasets.Features.from_arrow_schema(schema)
        except OF_DATASETS as error:
            return f"verl loads it by datasets {datasets.__version__}, which cannot ({_first_line(error):.80})"
        return ""

    if not (why := reason(schema)):
        return None
    if reason(schema.remove_metadata()):
        return why, "write that column as another type, or leave it out"
    plain = f"q.write_table(q.read_table('{path}').replace_schema_metadata(), 'NEW.parquet')"
    return why, f'write it without its metadata: python -c "import pyarrow.parquet as q; {plain}"'


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
