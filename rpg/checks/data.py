"""Checks of a run's parquet files and their prompts."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpg.config.run_config import RunConfig
from rpg.config.user_code import is_ours
from rpg.config.verl_keys import FUNCTION, MODEL, ROLLOUT
from rpg.data.check import check_file, check_overlap, score_remedy
from rpg.data.prompts import NoTokenizer, PromptCount, PromptTokenizer, count_prompts
from rpg.data.readers import DataError, read_file
from rpg.diagnostics import ABSENT, Diagnostic, Findings, shown
from rpg.rewards import is_known

PATTERN = re.compile(r"[*?\[\]]|::")  # what datasets.load_dataset does not take literally

BUILD = (
    "check the path, or build it: bash scripts/prepare_data.sh (7b, 4b), `rpg data build gsm8k`, "
    "`rpg demo --prepare-only` (cpu; --model toy)"
)
DEFAULT_LOOP = f"{ROLLOUT}.agent.default_agent_loop"
LOOPS = f"{ROLLOUT}.agent.agent_loop_config_path"
TRAIN, VAL, FILTERED = "data.train_files", "data.val_files", "data.filter_overlong_prompts"
BATCH, EPOCHS, STEPS = "data.train_batch_size", "trainer.total_epochs", "trainer.total_training_steps"


def elsewhere(path: str) -> bool:
    """Return whether a path is an address (hdfs://...), which verl downloads after the start."""
    return "://" in path


@dataclass
class DataFile:
    """A local parquet file of the run, and the key that names it."""

    key: str
    name: str

    def error(self, message: str, remedy: str = BUILD) -> Diagnostic:
        """Return an error of this file."""
        return Diagnostic(self.key, self.name, message, remedy)


def local_files(run: RunConfig) -> list[DataFile]:
    """Return the parquet files of the run; `rpg reproduce` checks a configuration that is not frozen, with ~."""
    splits = ((TRAIN, run.files("train")), (VAL, run.files("val")))
    return [DataFile(key, os.path.expanduser(name)) for key, names in splits for name in names if not elsewhere(name)]


def data_files(run: RunConfig) -> Findings:
    """Every parquet file can be read and has rows, rpg.rewards has a rule for every data_source, and the training
    files fill a batch and last for the steps.

    Reads a row, the footers, and the column data_source.
    """
    if run["data.custom_cls.path"]:  # a class of the user's reads the data
        return
    files = []
    for file in local_files(run):
        errors = list(faults(file, run["data.prompt_key"]))
        yield from errors
        files += [] if errors else [file]
    if is_ours(run[f"{FUNCTION}.path"]):
        yield from _data_sources(files)
    yield from _enough_rows(run, [pq.read_metadata(file.name).num_rows for file in files if file.key == TRAIN])


def faults(file: DataFile, prompt_key: str) -> Findings:
    """Yield why the run cannot use a file: its name, its footer, its columns."""
    path = Path(file.name)
    if not path.is_file():
        message = "is a directory, not a file" if path.is_dir() else "no such file"
        yield file.error(message, f"{BUILD} or set {file.key}")
        return
    if PATTERN.search(file.name):
        message = "is read as a pattern by datasets, which verl calls: other files, or none, would be loaded"
        yield file.error(message, "rename it, without * ? [ ] and ::")
        return
    if path.suffix != ".parquet":
        yield file.error(f"name ends in {path.suffix!r}", f"rpg data build --from {file.name}")
        return
    try:
        _, row = next(read_file(file.name), ("", None))
    except DataError as error:
        message, _, remedy = str(error).removeprefix(f"{file.name}: ").partition("; ")
        yield file.error(message, remedy)
        return
    if row is None:
        yield file.error("no rows")
    elif missing := [name for name in ("data_source", prompt_key, "reward_model") if name not in row]:
        yield file.error(f"lacks the columns {', '.join(missing)}", f"rpg data build --from {file.name}")


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
    rows, batch, samples = sum(counts), run[BATCH], run["data.train_max_samples"]
    steps, planned = run[EPOCHS] * ((min(rows, samples) if samples > 0 else rows) // batch), run[STEPS]
    if rows < batch:
        yield run.error(BATCH, f"is more than the {rows} rows of {TRAIN}", "lower it or give more data")
    elif 0 < samples < batch:
        yield run.error("data.train_max_samples", f"is below {run.shown(BATCH)}", "raise it, or lower the batch")
    elif planned is not None and steps < planned:
        message = f"is more than the {steps} steps of {run.shown(EPOCHS)}: verl would end before its last"
        yield run.error(STEPS, f"{message} checkpoint and validation", f"raise {EPOCHS}, or set this to null")


def agent_loops(run: RunConfig) -> Findings:
    """verl knows the agent loop of every row: its column agent_name, or rollout.agent.default_agent_loop without it.

    verl would fail at each response. Skipped for a data set class of the user's.
    """
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.utils.import_utils import resolve_config_path
    from yaml import YAMLError

    if run["data.custom_cls.path"]:
        return
    known = {*_agent_loop_registry}
    if run[LOOPS]:
        try:
            loops: Any = OmegaConf.to_container(OmegaConf.load(resolve_config_path(run[LOOPS])))
            known |= {loop["name"] for loop in loops}
        except (OSError, ValueError, LookupError, TypeError, YAMLError) as error:
            yield run.error(LOOPS, f"cannot be read ({error})", "see verl's page on agent loops")
            return
    listed = f"verl has {', '.join(sorted(known))}; add others by {LOOPS}"
    without = False
    for file in (file for file in local_files(run) if not any(faults(file, run["data.prompt_key"]))):
        if "agent_name" not in pq.read_schema(file.name).names:
            without = True
            continue
        names = pq.read_table(file.name, columns=["agent_name"])["agent_name"].unique().to_pylist()
        if unknown := [name for name in names if name not in known]:
            yield file.error(f"agent_name {', '.join(map(shown, unknown))} is no agent loop", listed)
    if without and run[DEFAULT_LOOP] not in known:
        yield Diagnostic(DEFAULT_LOOP, run[DEFAULT_LOOP], "is no agent loop", listed)


def prompts_fit(run: RunConfig) -> Findings:
    """The chat template takes every prompt, and none is longer than data.max_prompt_length unless
    data.filter_overlong_prompts leaves it out.

    verl would cut the beginning of a longer prompt, whatever data.truncation says, and go on.

    Of cost "verl" for transformers, which verl imports too.
    """
    # a data set class of the user's, or tools, make other prompts
    if run["data.custom_cls.path"] or run["data.tool_config_path"] or run["data.function_tool_path"]:
        return
    # data_files reports the files that have faults
    if not (files := [file for file in local_files(run) if not any(faults(file, run["data.prompt_key"]))]):
        return
    path, limit = run[f"{MODEL}.tokenizer_path"] or run[f"{MODEL}.path"], run["data.max_prompt_length"]
    try:
        tokenizer = PromptTokenizer(
            path,
            run[f"{MODEL}.custom_chat_template"],
            run["data.apply_chat_template_kwargs"],
            bool(run[f"{MODEL}.trust_remote_code"]),
        )
    except DataError as error:
        message, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        unknown = isinstance(error, NoTokenizer) and not Path(path).is_dir()
        yield Diagnostic(f"{MODEL}.path", path, message, remedy, "skip" if unknown else "error")
        return
    for name, near in tokenizer.unread_arguments().items():
        # without a near name it may be another model's, such as Qwen3's enable_thinking
        message, level = f"the chat template of {path} does not read it", "error" if near else "warning"
        key = f"data.apply_chat_template_kwargs.{name}"
        yield Diagnostic(key, run[key], message, near or "remove it", level)
    counts = [(file, count_prompts(_prompts(file, run["data.prompt_key"]), tokenizer, limit)) for file in files]
    for file, count in counts:
        if count.unusable:
            more = f" (and {count.unusable - 1} other rows)" if count.unusable > 1 else ""
            remedy = f"change the row or leave it out; a template that takes it is set by {MODEL}.custom_chat_template"
            yield file.error(f"{count.first_unusable}{more}", remedy)
    yield from _too_long(run, counts)


def _too_long(run: RunConfig, counts: list[tuple[DataFile, PromptCount]]) -> Findings:
    """Report prompts that verl would cut, or leave out if that is asked for; counts: each file and its prompts."""
    longest = max((count.longest for _, count in counts), default=0)
    for file, count in counts:
        if not (rows := count.too_long):
            continue
        of_file = f"{len(rows)} of {len(count.lengths)} prompts of {file.name}"
        if run[FILTERED]:
            yield run.error(FILTERED, f"leaves out {of_file}", "", "warning")
        else:
            more = f"up to {count.longest} tokens (first: row {rows[0]}): verl would cut their beginning"
            remedy = f"set it to {longest}, or {FILTERED}=true to leave them out"
            yield run.error("data.max_prompt_length", f"{of_file} are longer, {more}", remedy)
    left = [len(count.lengths) - len(count.too_long) for file, count in counts if file.key == TRAIN]
    if run[FILTERED] and sum(left) < run[BATCH] and len(left) == len(run.files("train")):
        message = f"leaves {sum(left)} rows of {TRAIN}, below {run.shown(BATCH)}"
        yield run.error(FILTERED, message, f"raise data.max_prompt_length, or lower {BATCH}")


def _prompts(file: DataFile, key: str) -> Iterator[Any]:
    """Yield the prompt of every row."""
    with pq.ParquetFile(file.name) as parquet:
        for batch in parquet.iter_batches(columns=[key]):
            yield from batch.column(0).to_pylist()


def rows(run: RunConfig) -> Findings:
    """Every row can be trained or evaluated on, no test problem is among the training ones.

    Runs `rpg data check`; `prompts fit` counts the tokens.
    """
    if run["data.custom_cls.path"]:
        return
    checked = []
    for name in dict.fromkeys([*run.files("train"), *run.files("val")]):
        path = Path(name)
        if path.is_file():
            checked.append(check_file(path, own_reward=not is_ours(run[f"{FUNCTION}.path"])))
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
