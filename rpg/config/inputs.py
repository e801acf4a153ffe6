"""Checks of a run's inputs: parquet files and the model's directory."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpg.config.check import check
from rpg.config.reward import is_ours
from rpg.config.run_config import RunConfig
from rpg.config.settings import MODEL, ROLLOUT
from rpg.data.concatenation import REMEDY, misfits
from rpg.data.diagnostics import ABSENT, Diagnostic, shown
from rpg.data.prompts import NoTokenizer, PromptCount, PromptTokenizer, count_prompts
from rpg.data.readers import DataError
from rpg.data.row_checks import check_file, check_overlap

BUILD = "build it with `rpg data build` (scripts/prepare_data.sh: all of the 7b and 4b scripts; `rpg demo`: the toy's)"
BATCH, LIMIT, FILTERED = "data.train_batch_size", "data.max_prompt_length", "data.filter_overlong_prompts"
# a data set class of the user's, or tools, make other prompts
CUSTOM = "data.custom_cls.path"
OTHER_PROMPTS = (CUSTOM, "data.tool_config_path", "data.function_tool_path")


def elsewhere(path: str) -> bool:
    """Return whether a path is an address (hdfs://...), which verl downloads after the start."""
    return "://" in path


def _data_files(run: RunConfig) -> list[tuple[str, str]]:
    """Return key and name of every local parquet file of the run; none if a class of the user's reads the data."""
    if run.get(CUSTOM):
        return []
    splits = (("data.train_files", run.files("train")), ("data.val_files", run.files("val")))
    return [(key, name) for key, names in splits for name in names if not elsewhere(name)]


def _schema(name: str) -> Any:
    """Return the Arrow schema and number of rows of a parquet file. Raises OSError or ArrowException."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(Path(name).expanduser()) as file:
        return file.schema_arrow, file.metadata.num_rows


@check(
    "data files",
    "every parquet file exists, can be read, and has rows and the columns that verl reads",
    subject="files",
)
def data_files(run: RunConfig) -> Iterator[Diagnostic]:
    """Reads the files' footers: columns and types."""
    import pyarrow as pa

    columns = {  # description, and parts of the name of Arrow's type
        "data_source": ("text", ["string"]),
        run.get("data.prompt_key"): ("a list of {role, content}", ["list<", "role: ", "content: "]),
        "reward_model": ("a structure with ground_truth", ["struct<", "ground_truth: "]),
    }
    for key, name in _data_files(run):
        path = Path(name).expanduser()
        variable = "TRAIN_FILE" if key == "data.train_files" else "TEST_FILE"
        if not path.is_file():
            wrong = "is a directory, not a file" if path.is_dir() else "no such file"
            yield Diagnostic(key, name, wrong, f"{BUILD} or set {variable}")
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


@check("files fit together", "the files of a list have columns of equal types; otherwise verl cannot concatenate them",
       subject="files")  # fmt: skip
def files_fit(run: RunConfig) -> Iterator[Diagnostic]:
    """Compares the schemas as `datasets` does."""
    for key in ("data.train_files", "data.val_files"):
        schemas = [(Path(name), _schema(name)[0]) for split, name in _readable(run) if split == key]
        for misfit in misfits(schemas):
            yield Diagnostic(key, str(misfit.later), str(misfit), REMEDY)


@check("data sources", "rpg.rewards has a rule for every data_source", subject="files")
def data_sources(run: RunConfig) -> Iterator[Diagnostic]:
    """Skipped for a custom reward function."""
    import pyarrow.parquet as pq

    from rpg.rewards import is_known

    if not is_ours(run.get("reward.custom_reward_function.path")):
        return
    for key, name in _readable(run):
        sources = pq.read_table(Path(name).expanduser(), columns=["data_source"])["data_source"].unique().to_pylist()
        unknown = sorted((source for source in sources if not is_known(source)), key=str)
        if unknown:
            wrong = f"data_source {', '.join(map(shown, unknown))} is not scored by rpg.rewards"
            remedy = (
                "give your reward function (rpg train --reward FILE, a script: reward.custom_reward_function.path=FILE)"
                ", or build the file with --data-source MATH or gsm8k for rpg's rules "
                "(rpg.rewards.KNOWN_DATA_SOURCES lists them)"
            )
            yield Diagnostic(key, name, wrong, remedy)


@check("enough rows", "the training files fill a batch", subject="files")
def enough_rows(run: RunConfig) -> Iterator[Diagnostic]:
    """verl's loader drops an incomplete batch."""
    if not _all_readable(run):
        return
    rows, batch = sum(_schema(name)[1] for name in run.files("train")), run.get(BATCH)
    if rows < batch:
        wrong = f"is more than the {rows} rows of data.train_files"
        yield Diagnostic(BATCH, batch, wrong, "lower it or give more data")
        return
    if 0 < (most := run.get("data.train_max_samples")) < batch:
        yield Diagnostic("data.train_max_samples", most, f"is below {BATCH}={batch}", "raise it, or lower the batch")
        return
    wanted, epochs = run.get("trainer.total_training_steps"), run.get("trainer.total_epochs")
    steps = epochs * ((min(rows, most) if most > 0 else rows) // batch)
    if wanted is not None and steps < wanted:
        wrong = f"is more than the {steps} steps of trainer.total_epochs={epochs}: verl would end before its last"
        remedy = "raise trainer.total_epochs, or set this to null"
        yield Diagnostic("trainer.total_training_steps", wanted, f"{wrong} checkpoint and validation", remedy)


@check("prompts fit", "the chat template takes every prompt, and none is longer than data.max_prompt_length unless "
       "data.filter_overlong_prompts leaves it out", "verl", "files")  # fmt: skip
def prompts_fit(run: RunConfig) -> Iterator[Diagnostic]:
    """verl would cut the beginning of a longer prompt, whatever data.truncation says, and go on.

    Of cost "verl" for transformers, which verl imports too.
    """
    if any(run.get(key) for key in OTHER_PROMPTS) or not any(_readable(run)):
        return
    path, limit = str(run.get(f"{MODEL}.tokenizer_path") or run.get(f"{MODEL}.path")), run.get(LIMIT)
    is_local = Path(path).expanduser().is_dir()
    try:
        tokenizer = PromptTokenizer(
            str(Path(path).expanduser()) if is_local else path,
            run.get(f"{MODEL}.custom_chat_template"),
            run.get("data.apply_chat_template_kwargs"),
            bool(run.get(f"{MODEL}.trust_remote_code")),
        )
    except DataError as error:
        wrong, _, remedy = str(error).removeprefix(f"{path}: ").partition("; ")
        unknown = isinstance(error, NoTokenizer) and not is_local
        yield Diagnostic(f"{MODEL}.path", path, wrong, remedy, "skip" if unknown else "error")
        return
    if isinstance(cut := run.get(f"{ROLLOUT}.prompt_length"), int) and cut < limit:
        wrong = f"is below {LIMIT}={limit}: verl would cut longer prompts to it"
        yield Diagnostic(f"{ROLLOUT}.prompt_length", cut, wrong, "remove the override")
    counts = [
        (key, name, count_prompts(_prompts(name, run.get("data.prompt_key")), tokenizer, limit))
        for key, name in _readable(run)
    ]
    for key, name, count in counts:
        if count.unusable:
            more = f" (and {count.unusable - 1} other rows)" if count.unusable > 1 else ""
            remedy = f"change the row or leave it out; a template that takes it is set by {MODEL}.custom_chat_template"
            yield Diagnostic(key, name, f"{count.first_unusable}{more}", remedy)
    yield from _too_long(run, counts)


def _too_long(run: RunConfig, counts: list[tuple[str, str, PromptCount]]) -> Iterator[Diagnostic]:
    """Report prompts that verl would cut, or leave out if that is asked for; counts: key, file and its prompts."""
    limit, batch, filtered = run.get(LIMIT), run.get(BATCH), run.get(FILTERED)
    longest = max((count.longest for *_, count in counts), default=0)
    for _, name, count in counts:
        if count.too_long and filtered:
            wrong = f"leaves out {count.too_long} of {count.rows} prompts of {name}"
            yield Diagnostic(FILTERED, True, wrong, level="warning")
        elif count.too_long:
            wrong = (
                f"{count.too_long} of {count.rows} prompts of {name} are longer, up to {count.longest} tokens (first: "
                f"row {count.first_too_long}): verl would cut their beginning"
            )
            yield Diagnostic(LIMIT, limit, wrong, f"set it to {longest}, or {FILTERED}=true to leave them out")
    left = sum(count.rows - count.too_long for key, _, count in counts if key == "data.train_files")
    if filtered and left < batch and _all_readable(run):
        wrong = f"leaves {left} rows of data.train_files, below {BATCH}={batch}"
        yield Diagnostic(FILTERED, True, wrong, f"raise {LIMIT}, or lower {BATCH}")


def _prompts(name: str, key: str) -> Iterator[Any]:
    """Yield the prompt of every row."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(Path(name).expanduser()) as file:
        for batch in file.iter_batches(columns=[key]):
            yield from batch.column(0).to_pylist()


@check(
    "model directory", "a local model is complete: config.json, tokenizer, weights that can be opened", subject="files"
)
def model_directory(run: RunConfig) -> Iterator[Diagnostic]:
    """Skips a hub name, unless the hub is switched off: then its files in the hub's cache are looked at."""
    key, path = f"{MODEL}.path", str(run.get(f"{MODEL}.path"))
    directory = _model_here(run)
    if directory is None:
        return
    if isinstance(directory, Diagnostic):
        yield directory
        return
    try:
        model_config = json.loads((directory / "config.json").read_bytes())
        kind = ".safetensors" if any(directory.glob("*.safetensors")) else ""  # which are loaded if there are both
        maps = [json.loads(index.read_bytes())["weight_map"] for index in directory.glob(f"*{kind}.index.json")]
    except (OSError, ValueError, LookupError, TypeError) as error:
        wrong = f"config.json or the index of the weights cannot be read ({error})"
        yield Diagnostic(key, path, wrong, "is this a Hugging Face model directory?")
        return
    if not isinstance(model_config, dict) or "model_type" not in model_config:
        yield Diagnostic(key, path, "config.json has no model_type", "is this a Hugging Face model directory?")
    if not any(directory.glob("tokenizer*")) and run.get(f"{MODEL}.tokenizer_path") is None:
        yield Diagnostic(key, path, "no tokenizer files", "save the tokenizer there or set model.tokenizer_path")
    weights = [*directory.glob("*.safetensors"), *directory.glob("pytorch_model*.bin")]
    if not weights:
        yield Diagnostic(key, path, "no weights (*.safetensors or pytorch_model*.bin)", "copy the model again")
    for file in weights:
        if wrong := broken_weights(file):
            yield Diagnostic(key, path, f"{file.name}: {wrong}", "copy the model again")
    for shard in sorted(
        {name for weight_map in maps for name in weight_map.values()} - {file.name for file in weights}
    ):
        yield Diagnostic(key, path, f"{shard} is missing, which the index of the weights names", "copy the model again")


def _model_here(run: RunConfig) -> Path | Diagnostic | None:
    """Return the model's directory, what is wrong with the path, or None for a model that is loaded from elsewhere."""
    path, directory = str(run.get(f"{MODEL}.path")), run.model
    if os.path.isdir(directory):  # also False if no file can have this name
        return directory
    looks_local = path.startswith(("/", "./", "../", "~")) or path.count("/") > 1 or os.path.exists(directory)
    if elsewhere(path) or (not looks_local and not _hub_is_off(run)):
        return None
    if not looks_local and (cached := _in_hub_cache(path)):
        return cached
    wrong = "is a file, not a directory" if os.path.exists(directory) else "no such directory"
    if not looks_local:
        wrong += ", nor a model in the hub's cache (HF_HUB_OFFLINE is set)"
    remedy = "set MODEL_PATH to a Hugging Face model directory; `rpg demo` makes the toy model"
    return Diagnostic(f"{MODEL}.path", path, wrong, remedy)


def _hub_is_off(run: RunConfig) -> bool:
    variables = {**(run.get("rpg.env") or {}), **os.environ}
    value = variables.get("HF_HUB_OFFLINE") or variables.get("TRANSFORMERS_OFFLINE")
    return str(value).lower() in ("1", "true", "yes", "on")  # as huggingface_hub reads it


def _in_hub_cache(name: str) -> Path | None:
    """Return the directory of a hub model's files in the hub's cache, or None."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        file = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # not a name of the hub
        return None
    return Path(file).parent if isinstance(file, str) else None


def broken_weights(file: Path) -> str | None:
    """Return what is wrong with a weights file, judging by size and header, or None."""
    from safetensors import SafetensorError, safe_open

    if not file.exists():
        return "is a link to nothing"
    if file.stat().st_size == 0:
        return "is empty"
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "numpy"):
                pass
        except SafetensorError as error:
            return f"is incomplete or damaged ({error})"
    return None


@check("rows", "every row can be trained or evaluated on, no test problem is among the training ones",
       "thorough", "files")  # fmt: skip
def rows(run: RunConfig) -> Iterator[Diagnostic]:
    """Runs `rpg data check`; `prompts fit` counts the tokens."""
    checked = []
    own_reward = not is_ours(run.get("reward.custom_reward_function.path"))
    if run.get(CUSTOM):
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
