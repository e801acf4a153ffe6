"""The toy model and its sums, as files of a directory."""

import shutil
from pathlib import Path

from rich.console import Console

from rpg.data.build import SPLITS
from rpg.data.parquet import write
from rpg.data.toy import SIZES, toy_problems

# a Qwen2 of half a million parameters, made by `python -m scripts.toy_model`
MODEL = Path(__file__).with_name("model")


def prepare(directory: Path, console: Console) -> None:
    """Put toy data and model into `directory`; existing files are kept. Raises OSError if a file cannot be written."""
    files = {split: directory / f"toy_{split}.parquet" for split in SPLITS}
    if not all(path.is_file() for path in files.values()):
        write({path: list(toy_problems(split, seed=0, count=SIZES[split])) for split, path in files.items()})
    if not (directory / "model").is_dir():
        partial = directory / ".model.partial"
        shutil.copytree(MODEL, partial, dirs_exist_ok=True)  # of a killed start
        partial.rename(directory / "model")
