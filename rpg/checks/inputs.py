"""Checks of a run's inputs: parquet files and the model's directory."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpg.checks.check import ABSENT, Diagnostic, Run, check, shown
from rpg.checks.reward import is_ours
from rpg.checks.settings import MODEL
from rpg.data.concatenation import REMEDY, misfits
from rpg.data.readers import DataError
from rpg.data.row_checks import check_file, check_overlap, prompt_length

BUILD = "build it with `rpg data build` (scripts/prepare_data.sh: all of the 7b and 4b scripts; `rpg demo`: the toy's)"
SHORTEST = 64  # prompts whose tokens are counted before a run


def elsewhere(path: str) -> bool:
    """Return whether a path is an address (hdfs://...), which verl downloads after the start."""
    return "://" in path


def _data_files(run: Run) -> list[tuple[str, str]]:
    """Return key and name of every local parquet file of the run."""
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
def data_files(run: Run) -> Iterator[Diagnostic]:
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
                key, name, "the name does not end in .parquet, by which verl chooses the reader", "rename or rebuild it"
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
            held = f"is {schema.field(column).type}" if column in schema.names else "is missing"
            if not all(part in held for part in parts):
                yield Diagnostic(key, name, f"column {column} {held}; it must be {words}", BUILD)


def _readable(run: Run) -> Iterator[tuple[str, str]]:
    """Return the files that pass data_files."""
    wrong = {diagnostic.value for diagnostic in data_files(run)}
    return ((key, name) for key, name in _data_files(run) if name not in wrong)


@check("files fit together", "the files of a list have columns of equal types; otherwise verl cannot concatenate them",
       subject="files")  # fmt: skip
def files_fit(run: Run) -> Iterator[Diagnostic]:
    """Compares the schemas as `datasets` does."""
    for key in ("data.train_files", "data.val_files"):
        schemas = [(Path(name), _schema(name)[0]) for split, name in _readable(run) if split == key]
        for misfit in misfits(schemas):
            yield Diagnostic(key, str(misfit.other), str(misfit), REMEDY)


@check("data sources", "rpg.rewards has a rule for every data_source", subject="files")
def data_sources(run: Run) -> Iterator[Diagnostic]:
    """Skipped for a custom reward function."""
    import pyarrow.parquet as pq

    from rpg.rewards import KNOWN_DATA_SOURCES, is_known

    if not is_ours(run.get("reward.custom_reward_function.path")):
        return
    for key, name in _readable(run):
        sources = pq.read_table(Path(name).expanduser(), columns=["data_source"])["data_source"].unique().to_pylist()
        unknown = sorted((source for source in sources if not is_known(source)), key=str)
        if unknown:
            wrong = f"data_source {', '.join(map(shown, unknown))} is not scored by rpg.rewards"
            known = ", ".join(sorted(KNOWN_DATA_SOURCES))
            yield Diagnostic(key, name, wrong, f"set reward.custom_reward_function for others; known: {known}")


@check("enough rows", "the training files fill a batch", subject="files")
def enough_rows(run: Run) -> Iterator[Diagnostic]:
    """verl's loader drops an incomplete batch."""
    readable = {name for _, name in _readable(run)}
    if not readable.issuperset(run.files("train")):
        return
    rows, batch = sum(_schema(name)[1] for name in run.files("train")), run.get("data.train_batch_size")
    if rows < batch:
        wrong = f"is more than the {rows} rows of data.train_files"
        yield Diagnostic("data.train_batch_size", batch, wrong, "lower it or give more data")


@check("prompts fit", f"not all of the {SHORTEST} shortest training prompts are above data.max_prompt_length",
       subject="files")  # fmt: skip
def prompts_fit(run: Run) -> Iterator[Diagnostic]:
    """Counts a lower bound, without the chat template; `rpg doctor` counts every prompt."""
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer

    file, key, limit = run.model / "tokenizer.json", run.get("data.prompt_key"), run.get("data.max_prompt_length")
    if any(model_directory(run)) or not file.is_file() or run.get(f"{MODEL}.tokenizer_path") is not None:
        return
    tokenizer = None
    for name in [name for split, name in _readable(run) if split == "data.train_files"]:
        rows = pq.read_table(Path(name).expanduser(), columns=[key])[key].to_pylist()
        texts = sorted(("".join(str(turn["content"]) for turn in row) for row in rows), key=len)[:SHORTEST]
        if limit >= max(map(len, texts)):  # a token has at least one character
            continue
        tokenizer = tokenizer or Tokenizer.from_file(str(file))
        shortest = min(len(encoding.ids) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False))
        if shortest > limit:
            wrong = f"the shortest prompts of {name} have {shortest} tokens: all would be cut"
            yield Diagnostic("data.max_prompt_length", limit, wrong, "raise it")


@check(
    "model directory", "a local model is complete: config.json, tokenizer, weights that can be opened", subject="files"
)
def model_directory(run: Run) -> Iterator[Diagnostic]:
    """Skips a hub name, unless the hub is switched off."""
    key, path, directory = f"{MODEL}.path", str(run.get(f"{MODEL}.path")), run.model
    if elsewhere(path):
        return
    if not os.path.isdir(directory):  # also False if no file can have this name
        looks_local = path.startswith(("/", "./", "../", "~")) or os.path.exists(directory)
        if looks_local or _hub_is_off(run):
            wrong = "is a file, not a directory" if os.path.exists(directory) else "no such directory"
            yield Diagnostic(
                key, path, wrong, "set MODEL_PATH to a Hugging Face model directory; `rpg demo` makes the toy model"
            )
        return
    try:
        model_config = json.loads((directory / "config.json").read_bytes())
        maps = [json.loads(index.read_bytes())["weight_map"] for index in directory.glob("*.index.json")]
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
    for shard in sorted({name for each in maps for name in each.values()} - {file.name for file in weights}):
        yield Diagnostic(key, path, f"{shard} is missing, which the index of the weights names", "copy the model again")


def _hub_is_off(run: Run) -> bool:
    return str(os.environ.get("HF_HUB_OFFLINE", run.get("rpg.env", {}).get("HF_HUB_OFFLINE", ""))) == "1"


def broken_weights(file: Path) -> str | None:
    """Return what is wrong with a weights file, judging by size and header, or None."""
    from safetensors import SafetensorError, safe_open

    if file.stat().st_size == 0:
        return "is empty"
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "numpy"):
                pass
        except SafetensorError as error:
            return f"is incomplete or damaged ({error})"
    return None


@check("rows", "every row can be trained or evaluated on, no prompt is cut, no test problem is among the training ones",
       "thorough", "files")  # fmt: skip
def rows(run: Run) -> Iterator[Diagnostic]:
    """Runs `rpg data check` with the model's tokenizer."""
    length, checked = None, []
    own_reward = not is_ours(run.get("reward.custom_reward_function.path"))
    if run.model.is_dir():
        try:
            length = prompt_length(str(run.model))
        except DataError as error:
            yield Diagnostic(f"{MODEL}.path", run.get(f"{MODEL}.path"), f"tokenizer: {error}", "copy the model again")
    for name in dict.fromkeys([*run.files("train"), *run.files("val")]):
        path = Path(name).expanduser()
        if path.is_file():
            checked.append(check_file(path, length, run.get("data.max_prompt_length"), own_reward))
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
