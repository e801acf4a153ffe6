"""Checks of a run's parquet files and their prompts, read as the run reads them."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import MODEL
from rpg.data.check import score_remedy
from rpg.data.prompts import load_tokenizer, prompt_lengths, unread_arguments
from rpg.data.readers import read_file
from rpg.diagnostics import Diagnostic, Findings, UserError, shown
from rpg.rewards import is_known

BUILD = "build it: `rpg data build NAME`, `rpg demo --prepare-only` (SmolLM2) or with --model toy (the toy task)"
TRAIN, VAL, FILTERED = "data.train_files", "data.val_files", "data.filter_overlong_prompts"
BATCH, EPOCHS, STEPS = "data.train_batch_size", "trainer.total_epochs", "trainer.total_training_steps"


@dataclass
class DataFile:
    """A local parquet file of the run, and the key that names it."""

    key: str
    name: str

    def error(self, message: str, remedy: str = BUILD) -> Diagnostic:
        """Return an error of this file."""
        return Diagnostic(self.key, self.name, message, remedy)


def local_files(run: RunConfig) -> list[DataFile]:
    """Return the run's files that verl's own data set reads; addresses (hdfs://...) are downloaded after the start."""
    if run["data.custom_cls.path"]:  # a class of the user's reads the data
        return []
    splits = ((TRAIN, run.files("train")), (VAL, run.files("val")))
    return [DataFile(key, name) for key, names in splits for name in names if "://" not in name]


def usable_files(run: RunConfig) -> list[DataFile]:
    """Return the files without a fault; `data_files` reports the others."""
    return [file for file in local_files(run) if fault(file, run["data.prompt_key"]) is None]


def data_files(run: RunConfig) -> Findings:
    """Every parquet file can be read and has rows, rpg.rewards has a rule for every data_source, and the training
    files fill a batch and last for the steps.

    Reads a row, the footers, and the column data_source.
    """
    counts = []
    for file in local_files(run):
        if found := fault(file, run["data.prompt_key"]):
            yield found
            continue
        if file.key == TRAIN:
            counts.append(pq.read_metadata(file.name).num_rows)
        if run.own_reward is None:
            sources = pq.read_table(file.name, columns=["data_source"])["data_source"].unique().to_pylist()
            if unknown := sorted((source for source in sources if not is_known(source)), key=str):
                names = ", ".join(map(shown, unknown))
                yield file.error(f"data_source {names} is not scored by rpg.rewards", score_remedy(str(unknown[0])))
    if len(counts) == len(run.files("train")):  # else some are not on this machine
        yield from _enough_rows(run, sum(counts))


def fault(file: DataFile, prompt_key: str) -> Diagnostic | None:
    """Return why the run cannot use a file: its name, its footer, its columns; None if it can."""
    if not Path(file.name).exists():
        return file.error("no such file")
    try:
        _, row = next(read_file(file.name), ("", None))
    except UserError as error:
        message, _, remedy = str(error).removeprefix(f"{file.name}: ").partition("; ")
        return file.error(message, remedy)
    if row is None:
        return file.error("no rows")
    missing = ", ".join(name for name in ("data_source", prompt_key, "reward_model") if name not in row)
    return file.error(f"lacks the columns {missing}", f"rpg data build --from {file.name}") if missing else None


def _enough_rows(run: RunConfig, rows: int) -> Findings:
    """Compare the rows of the training files with batch and steps; verl's loader drops an incomplete batch."""
    samples, planned = run["data.train_max_samples"], run[STEPS]
    batches = (min(rows, samples) if samples > 0 else rows) // run[BATCH]
    if batches == 0:
        yield run.error(BATCH, f"is more than the {rows} rows of {TRAIN}", "lower it or give more data")
    elif planned is not None and run[EPOCHS] * batches < planned:
        message = f"is more than {run.shown(EPOCHS)} x {batches} steps: verl would end without its last checkpoint"
        yield run.error(STEPS, message, f"raise {EPOCHS}, or set this to null")


def prompts_fit(run: RunConfig) -> Findings:
    """The chat template takes every prompt, and none is longer than data.max_prompt_length unless
    data.filter_overlong_prompts leaves it out.

    verl would cut the beginning of a longer prompt, whatever data.truncation says, and go on.

    Of cost "verl" for transformers, which verl imports too.
    """
    files = usable_files(run)
    if not files or run["data.tool_config_path"] or run["data.function_tool_path"]:  # tools make other prompts
        return
    path, limit = run[f"{MODEL}.tokenizer_path"] or run[f"{MODEL}.path"], run["data.max_prompt_length"]
    template, remote = run[f"{MODEL}.custom_chat_template"], bool(run[f"{MODEL}.trust_remote_code"])
    try:
        tokenizer = load_tokenizer(path, template, remote)
    except UserError as error:
        if Path(path).is_dir():  # else verl downloads it
            message, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
            yield Diagnostic(f"{MODEL}.path", path, message, remedy)
        return
    arguments = run["data.apply_chat_template_kwargs"]
    for name, near in unread_arguments(tokenizer, arguments).items():
        # without a near name it may be another model's, such as Qwen3's enable_thinking
        message, level = f"the chat template of {path} does not read it", "error" if near else "warning"
        yield run.error(f"data.apply_chat_template_kwargs.{name}", message, near or "remove it", level)
    by_file = list[tuple[DataFile, list[int]]]()
    for file in files:
        prompts = (row[run["data.prompt_key"]] for _, row in read_file(file.name))
        lengths, refused = prompt_lengths(tokenizer, prompts, arguments)
        by_file.append((file, lengths))
        if refused:
            remedy = f"change the row or leave it out; a template that takes it is set by {MODEL}.custom_chat_template"
            yield file.error(f"{refused[0]} ({len(refused)} rows)", remedy)
    longest = max(max(lengths) for _, lengths in by_file)
    for file, lengths in by_file:
        too_long = [row for row, length in enumerate(lengths) if length > limit]
        if too_long and not run[FILTERED]:
            of_file = f"{len(too_long)} of {len(lengths)} prompts of {file.name}"
            more = f"up to {max(lengths)} tokens (first: row {too_long[0]}): verl would cut their beginning"
            remedy = f"set it to {longest}, or {FILTERED}=true to leave them out"
            yield run.error("data.max_prompt_length", f"{of_file} are longer, {more}", remedy)
