"""Checks of a run's parquet files and their prompts."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rpg.config.keys import KEYS, ROLLOUT
from rpg.config.run_config import RunConfig
from rpg.config.user_code import is_ours
from rpg.data.prompts import NoTokenizer, PromptCount, PromptTokenizer, count_prompts
from rpg.data.readers import DataError
from rpg.data.row_checks import SAME_TYPES, check_file, check_overlap, misfit, unreadable
from rpg.data.row_model import score_remedy
from rpg.diagnostics import ABSENT, Diagnostic, Findings, shown
from rpg.rewards import is_known

PATTERN = re.compile(r"[*?\[\]]|::")  # what datasets.load_dataset does not take literally
TEXTS = (pa.string(), pa.large_string(), pa.string_view())  # Arrow types that it reads as text, or in a dictionary
LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)  # and as lists

BUILD = (
    "check the path, or build it: bash scripts/prepare_data.sh (7b, 4b), `rpg data build gsm8k` (1gpu), "
    "`rpg demo --prepare-only` (cpu; --model toy)"
)
DEFAULT_LOOP = f"{ROLLOUT}.agent.default_agent_loop"
TRAIN, VAL, FILTERED = KEYS["train_files"], KEYS["val_files"], KEYS["filters_prompts"]


def elsewhere(path: str) -> bool:
    """Return whether a path is an address (hdfs://...), which verl downloads after the start."""
    return "://" in path


@dataclass
class DataFile:
    """A local parquet file of the run, and the key that names it."""

    key: str
    name: str

    @cached_property
    def footer(self) -> tuple[pa.Schema, int]:
        """Schema and number of rows. Raises OSError or ArrowException."""
        with pq.ParquetFile(self.name) as file:
            return file.schema_arrow, file.metadata.num_rows

    def error(self, message: str, remedy: str = BUILD) -> Diagnostic:
        """Return an error of this file."""
        return Diagnostic(self.key, self.name, message, remedy)


def local_files(run: RunConfig) -> list[DataFile]:
    """Return the parquet files of the run; `rpg reproduce` checks a configuration that is not frozen, with ~."""
    splits = ((TRAIN, run.files("train")), (VAL, run.files("val")))
    return [DataFile(key, os.path.expanduser(name)) for key, names in splits for name in names if not elsewhere(name)]


def data_files(run: RunConfig) -> Findings:
    """Every parquet file can be read, and has rows and the columns that verl reads; those of a list have equal types,
    rpg.rewards has a rule for every data_source, and the training files fill a batch.

    Reads the footers and, of files without a fault, the column data_source.
    """
    if run.settings.data_class:  # a class of the user's reads the data
        return
    files = []
    for file in local_files(run):
        errors = list(faults(file, run.settings.prompt_key))
        yield from errors
        files += [] if errors else [file]
    for key in (TRAIN, VAL):
        if why := misfit([file.footer[0] for file in files if file.key == key]):
            yield Diagnostic(key, run.get(key), f"verl cannot concatenate these files ({why})", SAME_TYPES)
    if is_ours(run.settings.reward):
        yield from _data_sources(files)
    yield from _enough_rows(run, [file.footer[1] for file in files if file.key == TRAIN])


def faults(file: DataFile, prompt_key: str) -> Findings:
    """Yield why the run cannot use a file: its name, its footer, its columns."""
    path = Path(file.name)
    if not path.is_file():
        message = "is a directory, not a file" if path.is_dir() else "no such file"
        yield file.error(message, f"{BUILD} or set {'TRAIN_FILE' if file.key == TRAIN else 'TEST_FILE'}")
        return
    if PATTERN.search(file.name):
        message = "is read as a pattern by datasets, which verl calls: other files, or none, would be loaded"
        yield file.error(message, "rename it, without * ? [ ] and ::")
        return
    if path.suffix != ".parquet":
        message = "is not a .parquet file, which the checks and our commands need"
        yield file.error(message, f"rpg data build --from {file.name}")
        return
    try:
        schema, rows = file.footer
    except (pa.ArrowException, OSError) as error:
        yield file.error(f"not a parquet file: {error}")
        return
    if rows == 0:
        yield file.error("no rows")
    if fault := unreadable(file.name, schema):
        yield file.error(*fault)
    types = dict(zip(schema.names, schema.types, strict=True))
    for column, words in _unusable(types, prompt_key):
        state = f"is {types[column]}" if column in types else "is missing"
        yield file.error(f"column {column} {state}; it must be {words}")


def _unusable(types: dict[str, Any], prompt_key: str) -> Iterator[tuple[str, str]]:
    """Yield the columns whose Arrow types verl cannot use, and what they must be."""
    source, prompt, reward = (types.get(name, pa.null()) for name in ("data_source", prompt_key, "reward_model"))
    if (source.value_type if isinstance(source, pa.DictionaryType) else source) not in TEXTS:
        yield "data_source", "text"
    if not isinstance(prompt, LISTS) or not {"role", "content"} <= _fields(prompt.value_type):
        yield prompt_key, "a list of {role, content}"
    if "ground_truth" not in _fields(reward):
        yield "reward_model", "a structure with ground_truth"


def _fields(kind: Any) -> set[str]:
    return {field.name for field in kind} if isinstance(kind, pa.StructType) else set()


def _data_sources(files: list[DataFile]) -> Findings:
    """Yield the files with a data_source that rpg.rewards has no rule for."""
    for file in files:
        sources = pq.read_table(file.name, columns=["data_source"])["data_source"].unique().to_pylist()
        unknown = sorted((source for source in sources if not is_known(source)), key=str)
        if unknown:
            message = f"data_source {', '.join(map(shown, unknown))} is not scored by rpg.rewards"
            yield file.error(message, score_remedy(str(unknown[0])))


def _enough_rows(run: RunConfig, counts: list[int]) -> Findings:
    """Compare the rows of the training files with batch and steps; verl's loader drops an incomplete batch."""
    if len(counts) < len(run.files("train")):  # the others are not on this machine
        return
    s, rows = run.settings, sum(counts)
    steps = s.epochs * ((min(rows, s.train_samples) if s.train_samples > 0 else rows) // s.batch)
    if rows < s.batch:
        yield s.error("batch", f"is more than the {rows} rows of {TRAIN}", "lower it or give more data")
    elif 0 < s.train_samples < s.batch:
        yield s.error("train_samples", f"is below {s.shown('batch')}", "raise it, or lower the batch")
    elif s.steps is not None and steps < s.steps:
        message = f"is more than the {steps} steps of {s.shown('epochs')}: verl would end before its last"
        remedy = f"raise {KEYS['epochs']}, or set this to null"
        yield s.error("steps", f"{message} checkpoint and validation", remedy)


def prompts_fit(run: RunConfig) -> Findings:
    """The chat template takes every prompt, and none is longer than data.max_prompt_length unless
    data.filter_overlong_prompts leaves it out.

    verl would cut the beginning of a longer prompt, whatever data.truncation says, and go on.

    Of cost "verl" for transformers, which verl imports too.
    """
    s = run.settings
    # a data set class of the user's, or tools, make other prompts
    if s.data_class or s.tools or s.function_tools:
        return
    # data_files reports the files that have faults
    if not (files := [file for file in local_files(run) if not any(faults(file, s.prompt_key))]):
        return
    path, limit = s.tokenizer or s.model, s.prompt
    try:
        tokenizer = PromptTokenizer(path, s.chat_template, s.template_kwargs, bool(s.trust_remote_code))
    except DataError as error:
        message, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        unknown = isinstance(error, NoTokenizer) and not Path(path).is_dir()
        yield Diagnostic(KEYS["model"], path, message, remedy, "skip" if unknown else "error")
        return
    for name, near in tokenizer.unread_arguments().items():
        # without a near name it may be another model's, such as Qwen3's enable_thinking
        message, level = f"the chat template of {path} does not read it", "error" if near else "warning"
        key = f"{KEYS['template_kwargs']}.{name}"
        yield Diagnostic(key, run.get(key), message, near or "remove it", level)
    if isinstance(s.prompt_cut, int) and s.prompt_cut < limit:
        message = f"is below {s.shown('prompt')}: verl would cut longer prompts to it"
        yield s.error("prompt_cut", message, "remove the override")
    counts = [(file, count_prompts(_prompts(file, s.prompt_key), tokenizer, limit)) for file in files]
    for file, count in counts:
        if count.unusable:
            more = f" (and {count.unusable - 1} other rows)" if count.unusable > 1 else ""
            remedy = f"change the row or leave it out; a template that takes it is set by {KEYS['chat_template']}"
            yield file.error(f"{count.first_unusable}{more}", remedy)
    yield from _too_long(run, counts)


def agent_loops(run: RunConfig) -> Findings:
    """verl knows the agent loop of every row: its column agent_name, or rollout.agent.default_agent_loop without it.

    verl would fail at each response. Skipped for a data set class of the user's.
    """
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.utils.import_utils import resolve_config_path
    from yaml import YAMLError

    s = run.settings
    if s.data_class:
        return
    known = {*_agent_loop_registry}
    if s.agent_loops:
        try:
            loops: Any = OmegaConf.to_container(OmegaConf.load(resolve_config_path(s.agent_loops)))
            known |= {loop["name"] for loop in loops}
        except (OSError, ValueError, LookupError, TypeError, YAMLError) as error:
            yield s.error("agent_loops", f"cannot be read ({error})", "see verl's page on agent loops")
            return
    listed = f"verl has {', '.join(sorted(known))}; add others by {KEYS['agent_loops']}"
    without = False
    for file in (file for file in local_files(run) if not any(faults(file, s.prompt_key))):
        if "agent_name" not in file.footer[0].names:
            without = True
            continue
        names = pq.read_table(file.name, columns=["agent_name"])["agent_name"].unique().to_pylist()
        if unknown := [name for name in names if name not in known]:
            yield file.error(f"agent_name {', '.join(map(shown, unknown))} is no agent loop", listed)
    if without and run.get(DEFAULT_LOOP) not in known:
        yield Diagnostic(DEFAULT_LOOP, run.get(DEFAULT_LOOP), "is no agent loop", listed)


def _too_long(run: RunConfig, counts: list[tuple[DataFile, PromptCount]]) -> Findings:
    """Report prompts that verl would cut, or leave out if that is asked for; counts: each file and its prompts."""
    s = run.settings
    longest = max((count.longest for _, count in counts), default=0)
    for file, count in counts:
        if count.too_long and s.filters_prompts:
            message = f"leaves out {count.too_long} of {count.rows} prompts of {file.name}"
            yield s.finding("filters_prompts", message, "", "warning")
        elif count.too_long:
            message = (
                f"{count.too_long} of {count.rows} prompts of {file.name} are longer, up to {count.longest} tokens "
                f"(first: row {count.first_too_long}): verl would cut their beginning"
            )
            yield s.error("prompt", message, f"set it to {longest}, or {FILTERED}=true to leave them out")
    left = [count.rows - count.too_long for file, count in counts if file.key == TRAIN]
    if s.filters_prompts and sum(left) < s.batch and len(left) == len(run.files("train")):
        message = f"leaves {sum(left)} rows of {TRAIN}, below {s.shown('batch')}"
        yield s.error("filters_prompts", message, f"raise {KEYS['prompt']}, or lower {KEYS['batch']}")


def _prompts(file: DataFile, key: str) -> Iterator[Any]:
    """Yield the prompt of every row."""
    with pq.ParquetFile(file.name) as parquet:
        for batch in parquet.iter_batches(columns=[key]):
            yield from batch.column(0).to_pylist()


def rows(run: RunConfig) -> Findings:
    """Every row can be trained or evaluated on, no test problem is among the training ones.

    Runs `rpg data check`; `prompts fit` counts the tokens.
    """
    if run.settings.data_class:
        return
    checked = []
    for name in dict.fromkeys([*run.files("train"), *run.files("val")]):
        path = Path(name)
        if path.is_file():
            checked.append(check_file(path, own_reward=not is_ours(run.settings.reward)))
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
