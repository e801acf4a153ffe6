"""Checks of a run's parquet files and their prompts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.config.user_code import is_ours
from rpg.data.prompts import NoTokenizer, PromptCount, PromptTokenizer, count_prompts
from rpg.data.readers import DataError
from rpg.data.row_checks import SAME_TYPES, check_file, check_overlap, misfit
from rpg.data.row_model import score_remedy
from rpg.diagnostics import ABSENT, Diagnostic, Findings, shown

PATTERN = re.compile(r"[*?\[\]]|::")  # what datasets.load_dataset does not take literally

BUILD = (
    "check the path, or build it: bash scripts/prepare_data.sh (7b, 4b), `rpg data build gsm8k` (1gpu), "
    "`rpg demo --prepare-only` (cpu; --model toy)"
)
TRAIN, VAL, FILTERED = KEYS["train_files"], KEYS["val_files"], KEYS["filters_prompts"]


def elsewhere(path: str) -> bool:
    """Return whether a path is an address (hdfs://...), which verl downloads after the start."""
    return "://" in path


def _data_files(run: RunConfig) -> list[tuple[str, str]]:
    """Return key and name of every local parquet file of the run; none if a class of the user's reads the data."""
    if run.settings.data_class:  # of the user's
        return []
    splits = ((TRAIN, run.files("train")), (VAL, run.files("val")))
    return [(key, name) for key, names in splits for name in names if not elsewhere(name)]


def _schema(name: str) -> Any:
    """Return the Arrow schema and number of rows of a parquet file. Raises OSError or ArrowException."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(Path(name).expanduser()) as file:
        return file.schema_arrow, file.metadata.num_rows


def data_files(run: RunConfig) -> Findings:
    """Every parquet file exists, can be read, and has rows and the columns that verl reads.

    Reads the files' footers: columns and types.
    """
    import pyarrow as pa

    columns = {  # description, and parts of the name of Arrow's type
        "data_source": ("text", ["string"]),
        run.settings.prompt_key: ("a list of {role, content}", ["list<", "role: ", "content: "]),
        "reward_model": ("a structure with ground_truth", ["struct<", "ground_truth: "]),
    }
    for key, name in _data_files(run):
        path = Path(name).expanduser()
        variable = "TRAIN_FILE" if key == TRAIN else "TEST_FILE"
        if not path.is_file():
            wrong = "is a directory, not a file" if path.is_dir() else "no such file"
            yield Diagnostic(key, name, wrong, f"{BUILD} or set {variable}")
            continue
        if PATTERN.search(name):
            wrong = "is read as a pattern by datasets, which verl calls: other files, or none, would be loaded"
            yield Diagnostic(key, name, wrong, "rename it, without * ? [ ] and ::")
            continue
        if path.suffix != ".parquet":
            yield Diagnostic(
                key,
                name,
                "is not a .parquet file, which the checks and our commands need",
                f"rpg data build --from {name}",
            )
            continue
        try:
            schema, rows = _schema(name)
        except (pa.ArrowException, OSError) as error:
            yield Diagnostic(key, name, f"not a parquet file: {error}", BUILD)
            continue
        if rows == 0:
            yield Diagnostic(key, name, "no rows", BUILD)
        for column, (words, parts) in columns.items():
            state = f"is {schema.field(column).type}" if column in schema.names else "is missing"
            if not all(part in state for part in parts):
                yield Diagnostic(key, name, f"column {column} {state}; it must be {words}", BUILD)


def _readable(run: RunConfig) -> Iterator[tuple[str, str]]:
    """Return the files that pass data_files."""
    wrong = {diagnostic.value for diagnostic in data_files(run)}
    return ((key, name) for key, name in _data_files(run) if name not in wrong)


def _all_readable(run: RunConfig) -> bool:
    """Return whether every training file is here and passes data_files."""
    return {name for _, name in _readable(run)}.issuperset(run.files("train"))


def files_fit(run: RunConfig) -> Findings:
    """The files of a list have columns of equal types; otherwise verl cannot concatenate them."""
    for key in (TRAIN, VAL):
        if why := misfit([_schema(name)[0] for split, name in _readable(run) if split == key]):
            yield Diagnostic(key, run.get(key), f"verl cannot concatenate these files ({why})", SAME_TYPES)


def data_sources(run: RunConfig) -> Findings:
    """rpg.rewards has a rule for every data_source.

    Skipped for a custom reward function.
    """
    import pyarrow.parquet as pq

    from rpg.rewards import is_known

    if not is_ours(run.settings.reward):
        return
    for key, name in _readable(run):
        sources = pq.read_table(Path(name).expanduser(), columns=["data_source"])["data_source"].unique().to_pylist()
        unknown = sorted((source for source in sources if not is_known(source)), key=str)
        if unknown:
            wrong = f"data_source {', '.join(map(shown, unknown))} is not scored by rpg.rewards"
            yield Diagnostic(key, name, wrong, score_remedy(str(unknown[0])))


def enough_rows(run: RunConfig) -> Findings:
    """The training files fill a batch.

    verl's loader drops an incomplete batch.
    """
    if not _all_readable(run):
        return
    s, rows = run.settings, sum(_schema(name)[1] for name in run.files("train"))
    if rows < s.batch:
        yield s.error("batch", f"is more than the {rows} rows of {TRAIN}", "lower it or give more data")
        return
    if 0 < s.train_samples < s.batch:
        yield s.error("train_samples", f"is below {s.shown('batch')}", "raise it, or lower the batch")
        return
    steps = s.epochs * ((min(rows, s.train_samples) if s.train_samples > 0 else rows) // s.batch)
    if s.steps is not None and steps < s.steps:
        wrong = f"is more than the {steps} steps of {s.shown('epochs')}: verl would end before its last"
        remedy = f"raise {KEYS['epochs']}, or set this to null"
        yield s.error("steps", f"{wrong} checkpoint and validation", remedy)


def prompts_fit(run: RunConfig) -> Findings:
    """The chat template takes every prompt, and none is longer than data.max_prompt_length unless
    data.filter_overlong_prompts leaves it out.

    verl would cut the beginning of a longer prompt, whatever data.truncation says, and go on.

    Of cost "verl" for transformers, which verl imports too.
    """
    s = run.settings
    # a data set class of the user's, or tools, make other prompts
    if s.data_class or s.tools or s.function_tools or not any(_readable(run)):
        return
    path, limit = s.tokenizer or s.model, s.prompt
    is_local = Path(path).expanduser().is_dir()
    try:
        tokenizer = PromptTokenizer(
            str(Path(path).expanduser()) if is_local else path,
            s.chat_template,
            s.template_kwargs,
            bool(s.trust_remote_code),
        )
    except DataError as error:
        wrong, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        unknown = isinstance(error, NoTokenizer) and not is_local
        yield Diagnostic(KEYS["model"], path, wrong, remedy, "skip" if unknown else "error")
        return
    if isinstance(s.prompt_cut, int) and s.prompt_cut < limit:
        wrong = f"is below {s.shown('prompt')}: verl would cut longer prompts to it"
        yield s.error("prompt_cut", wrong, "remove the override")
    counts = [
        (key, name, count_prompts(_prompts(name, s.prompt_key), tokenizer, limit)) for key, name in _readable(run)
    ]
    for key, name, count in counts:
        if count.unusable:
            more = f" (and {count.unusable - 1} other rows)" if count.unusable > 1 else ""
            remedy = f"change the row or leave it out; a template that takes it is set by {KEYS['chat_template']}"
            yield Diagnostic(key, name, f"{count.first_unusable}{more}", remedy)
    yield from _too_long(run, counts)


def _too_long(run: RunConfig, counts: list[tuple[str, str, PromptCount]]) -> Findings:
    """Report prompts that verl would cut, or leave out if that is asked for; counts: key, file and its prompts."""
    s = run.settings
    longest = max((count.longest for *_, count in counts), default=0)
    for _, name, count in counts:
        if count.too_long and s.filters_prompts:
            wrong = f"leaves out {count.too_long} of {count.rows} prompts of {name}"
            yield s.finding("filters_prompts", wrong, "", "warning")
        elif count.too_long:
            wrong = (
                f"{count.too_long} of {count.rows} prompts of {name} are longer, up to {count.longest} tokens (first: "
                f"row {count.first_too_long}): verl would cut their beginning"
            )
            yield s.error("prompt", wrong, f"set it to {longest}, or {FILTERED}=true to leave them out")
    left = sum(count.rows - count.too_long for key, _, count in counts if key == TRAIN)
    if s.filters_prompts and left < s.batch and _all_readable(run):
        wrong = f"leaves {left} rows of {TRAIN}, below {s.shown('batch')}"
        yield s.error("filters_prompts", wrong, f"raise {KEYS['prompt']}, or lower {KEYS['batch']}")


def _prompts(name: str, key: str) -> Iterator[Any]:
    """Yield the prompt of every row."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(Path(name).expanduser()) as file:
        for batch in file.iter_batches(columns=[key]):
            yield from batch.column(0).to_pylist()


def rows(run: RunConfig) -> Findings:
    """Every row can be trained or evaluated on, no test problem is among the training ones.

    Runs `rpg data check`; `prompts fit` counts the tokens.
    """
    checked = []
    own_reward = not is_ours(run.settings.reward)
    if run.settings.data_class:
        return
    for name in dict.fromkeys([*run.files("train"), *run.files("val")]):
        path = Path(name).expanduser()
        if path.is_file():
            checked.append(check_file(path, own_reward=own_reward))
        elif elsewhere(name):
            yield Diagnostic(name, ABSENT, "is not on this machine", level="skip")
    check_overlap(checked)
    for file in checked:
        errors = file.diagnostics.count("error")
        first = next((line.strip() for line in file.diagnostics.lines()), "")
        if errors:
            yield Diagnostic(str(file.path), ABSENT, f"{errors} errors, first: {first}", f"rpg data check {file.path}")
        else:
            yield Diagnostic(str(file.path), ABSENT, file.summary().removeprefix(f"{file.path}: "), level="ok")
