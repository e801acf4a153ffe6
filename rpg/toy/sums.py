"""The toy model and its sums, as files of a directory."""

import os
from pathlib import Path

from rich.console import Console

from rpg.data.build import SPLITS
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import SIZES, toy_problems

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def is_whole(model: Path) -> bool:
    """Return whether a directory has a model and its tokenizer without empty files.

    Not in rpg.toy.model, which imports torch: seconds, and half a gigabyte during the training.
    """
    return all((model / name).is_file() and (model / name).stat().st_size for name in MODEL_FILES)


def prepare(directory: Path, console: Console) -> None:
    """Build toy data and model in `directory`; existing files are kept.

    Raises RuntimeError if the model's accuracy is out of range, OSError if a file cannot be written.
    """
    files = {split: directory / f"toy_{split}.parquet" for split in SPLITS}
    if not all(path.is_file() for path in files.values()):
        write_together(
            {path: repeated_rows(toy_problems(split, seed=0, count=SIZES[split])) for split, path in files.items()}
        )
    if not is_whole(directory / "model"):
        console.rule("toy model: half a million parameters, trained in 2 minutes")
        # torch's threads synchronize a thousand times per step; if they spin while waiting, another busy process makes
        # the training eight times slower
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from rpg.toy.model import build_toy_model

        build_toy_model(directory / "model")
