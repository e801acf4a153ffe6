"""`rpg data check`: whether parquet files can be trained and evaluated on, and if not, why."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from rpg.data.build import digest
from rpg.data.check_rows import REQUIRED, row_issues, short
from rpg.data.findings import Findings, Issue, warning
from rpg.data.published import problem_text
from rpg.data.readers import DataError, open_parquet, read_batches

MAX_PROMPT_LENGTH = 2048  # of the launch scripts
PromptLength = Callable[[list[dict[str, str]]], int]


@dataclass(slots=True)
class Seen:
    """What is remembered of one problem: no text, so that memory stays small."""

    first_row: int
    answer: bytes
    count: int = 0
    low_index: int = 1 << 62
    high_index: int = -1


@dataclass
class FileCheck:
    """The state of checking one file."""

    path: Path
    findings: Findings = field(default_factory=Findings)
    rows: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    problems: dict[bytes, Seen] = field(default_factory=dict)
    too_long: int | None = None  # None where no tokenizer was given

    @property
    def role(self) -> str:
        """'train', 'test', or 'unknown' where extra_info.split does not say."""
        return next(iter(self.splits)) if len(self.splits) == 1 else "unknown"

    def summary(self) -> str:
        """Return the counts of the file in one line."""
        counts = [seen.count for seen in self.problems.values()]
        if not counts:
            return f"{self.path}: {self.rows} rows"
        repeats = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        sources = ", ".join(f"{name:.40} ({count})" for name, count in self.sources.most_common(5))
        truths = self.findings.count(errors=True, column="reward_model.ground_truth")
        return (
            f"{self.path}: {self.rows} rows, {len(counts)} problems, each {repeats} times; "
            f"data_source {sources}; split {self.role}; {truths} ground truths unusable"
            + ("" if self.too_long is None else f"; {self.too_long} problems too long")
        )


def check_files(paths: list[Path], tokenizer: str | None = None, max_prompt_length: int = MAX_PROMPT_LENGTH) -> int:
    """Check every file and print what is wrong; 0 only where all of them can be trained on."""
    length: PromptLength | None = None
    broken = 0
    if tokenizer:
        try:
            length = prompt_length(tokenizer)
        except DataError as error:
            print(f"error: --tokenizer: {error}")
            broken = 1
    checks = [check_file(path, length, max_prompt_length) for path in paths]
    check_overlap(checks)
    for check in checks:
        print(check.summary())
        for line in check.findings.lines():
            print(line)
    errors = broken + sum(check.findings.count(errors=True) for check in checks)
    warnings = sum(check.findings.count(errors=False) for check in checks)
    verdict = "not ready to train on" if errors else "can be trained on"
    print(f"{len(checks)} files, {errors} errors, {warnings} warnings: {verdict}")
    return 1 if errors else 0


def check_file(path: Path, length: PromptLength | None = None, max_prompt_length: int = MAX_PROMPT_LENGTH) -> FileCheck:
    """Check one file by itself; problems with reading it become findings."""
    check = FileCheck(path, too_long=0 if length else None)
    if path.suffix != ".parquet":
        check.findings.add(Issue("file", f"name ends in {path.suffix!r}", "verl reads by name; rename to .parquet"))
        return check
    try:
        with open_parquet(path) as parquet:
            if not check_columns(check, parquet.schema_arrow.names):
                return check
            for rows in read_batches(path, parquet):
                for row in rows:
                    check_row(check, row, length, max_prompt_length)
                    check.rows += 1
    except DataError as error:
        what, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        check.findings.add(Issue("file", what, remedy))
        return check
    if not check.rows:
        check.findings.add(Issue("file", "no rows", "build or download it again"))
    if check.too_long and check.too_long == len(check.problems):
        what = f"all {check.rows} rows are over {max_prompt_length} tokens, and verl drops them: nothing is left"
        check.findings.add(Issue("prompt", what, "raise data.max_prompt_length"))
    check_repeats(check)
    return check


def check_columns(check: FileCheck, names: list[str]) -> bool:
    """Report missing and doubled columns; False where rows cannot be read by name."""
    for name in REQUIRED:
        if name not in names:
            found = f"columns are {', '.join(names)}"
            check.findings.add(
                Issue(name, f"no such column; {found}", "build it with `rpg data build NAME --from FILE`")
            )
    if "extra_info" not in names:
        check.findings.add(warning("extra_info", "no such column", "verl then numbers every row 0"))
    doubled = [name for name, count in Counter(names).items() if count > 1]
    for name in doubled:
        check.findings.add(Issue(name, "column stands there twice", "keep one of them"))
    return not doubled


def check_row(check: FileCheck, row: dict[str, Any], length: PromptLength | None, max_prompt_length: int) -> None:
    """Record what is wrong with `row` and remember its problem for the checks across rows."""
    broken_prompt = False
    for issue in row_issues(row):
        check.findings.add(issue, check.rows)
        broken_prompt |= issue.is_error and issue.column.startswith("prompt")
    check.sources[str(row.get("data_source"))] += 1
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, dict) else {}
    check.splits[str(extra.get("split") or "unknown")] += 1
    problem, reward_model = problem_text(row), row.get("reward_model")
    if not problem or broken_prompt:
        return
    truth = reward_model.get("ground_truth") if isinstance(reward_model, dict) else None
    key, answer = digest(problem), digest(str(truth))
    seen = check.problems.get(key)
    if seen is None:
        seen = check.problems[key] = Seen(check.rows, answer)
        if length and (tokens := length(row["prompt"])) > max_prompt_length:
            check.too_long = (check.too_long or 0) + 1
            # verl drops the row: a smaller training set, but another test set
            make = warning if extra.get("split") == "train" else Issue
            remedy = "verl drops such rows; raise data.max_prompt_length or leave the problem out"
            check.findings.add(make("prompt", f"{tokens} tokens, over {max_prompt_length}", remedy), check.rows)
    elif seen.answer != answer:
        what = f"{short(truth)}, but row {seen.first_row} asks the same and has another answer"
        check.findings.add(
            Issue("reward_model.ground_truth", what, "find out which is right, drop the other"), check.rows
        )
    seen.count += 1
    index = extra.get("index")
    if isinstance(index, int):
        seen.low_index, seen.high_index = min(seen.low_index, index), max(seen.high_index, index)


def check_repeats(check: FileCheck) -> None:
    """Check splits, how often each problem stands there, and how the repeats are numbered."""
    findings, problems = check.findings, check.problems.values()
    if len(check.splits) > 1:
        what = ", ".join(f"{name} ({count})" for name, count in check.splits.most_common())
        findings.add(Issue("extra_info.split", f"mixed: {what}", "one file holds one split; write two files"))
    usual = Counter(seen.count for seen in problems).most_common(1)[0][0] if problems else 0
    if check.role == "train" or (check.role == "unknown" and usual != max((s.count for s in problems), default=0)):
        extra = sum(seen.count - 1 for seen in problems)
        if extra:
            what = f"{extra} rows repeat {len(problems)} problems"
            findings.add(
                warning("prompt", what, "an epoch then takes that much longer; deduplicate with `rpg data build`")
            )
    elif check.role == "test":
        for seen in problems:
            if seen.count != usual:
                what = f"problem stands there {seen.count} times, most stand {usual} times"
                findings.add(Issue("prompt", what, "repeat every problem equally, or means are skewed"), seen.first_row)
    for seen in problems:
        numbered = (seen.low_index, seen.high_index) == (0, seen.count - 1)
        problem_number = seen.low_index == seen.high_index  # as in the released AIME24 file: read both
        if seen.high_index >= 0 and not numbered and not problem_number:
            what = f"repeats are numbered {seen.low_index}..{seen.high_index}, there are {seen.count}"
            findings.add(warning("extra_info.index", what, "number the repeats 0..K-1"), seen.first_row)


def check_overlap(checks: list[FileCheck]) -> None:
    """Find problems that stand in two files: an error unless both files are known to be of one split."""
    for one, other in combinations(checks, 2):
        if one.path.resolve() == other.path.resolve():
            other.findings.add(Issue("file", "given twice", "name each file once"))
            continue
        shared = one.problems.keys() & other.problems.keys()
        same_role = one.role == other.role != "unknown"
        make = warning if same_role else Issue
        remedy = (
            "both are of one split: they count twice"
            if same_role
            else "contamination: build the training file with --exclude THIS FILE"
        )
        for key in sorted(shared, key=lambda key: other.problems[key].first_row):
            what = f"also row {one.problems[key].first_row} of {one.path}"
            other.findings.add(make("prompt", what, remedy), other.problems[key].first_row)


def prompt_length(tokenizer: str) -> PromptLength:
    """Return a function that counts a prompt's tokens as verl does, chat template included."""
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{tokenizer}: no tokenizer ({reason}); give the model's folder") from error
    if not loaded.chat_template:
        raise DataError(f"{tokenizer}: no chat template; verl needs one, give the instruct model's folder")

    def length(prompt: list[dict[str, str]]) -> int:
        return len(loaded.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False))

    return length
