"""The demo: its model, data and settings, and the curve of its run."""

import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rpg.config.keys import KEYS
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import SIZES, toy_problems
from rpg.diagnostics import BadSetting
from rpg.dotted import below
from rpg.overrides import key_of

SCRIPT = "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28"
ANSWERS = 4  # answers to each of the 256 held-out problems
ACCURACY = "val-core/toy_sum/acc/mean@"  # answers to a problem, unless an override changes it
# Required gain of held-out accuracy. Three runs on two models gained 0.390, 0.389 and 0.405; 0.020 is the standard
# deviation of the difference of two means of 1024 answers (sqrt(2 x 0.2 / 1024)). A false alarm is 4.7 of these below
# 0.395, or 3.5 (one in 4,000) if the true deviation is a third larger.
GAIN = 0.30
# A decaying learning rate ends with less noise than the script's constant one. At 1e-4 thirty steps are too few
# (+0.339); at 4e-4 the gain depends on the initial model (0.33 to 0.47).
SETTINGS = [
    f"{KEYS['val_n']}={ANSWERS}",
    f"{KEYS['lr']}=2e-4",
    f"{KEYS['lr_schedule']}=cosine",
    f"{KEYS['test_freq']}=15",
]
# set by the demo, which reads these files afterwards and shows the curve of one run from its start
OWN = (*(KEYS[name] for name in ("directory", "resume_mode", "model", "train_files", "val_files")),)
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def check_overrides(overrides: list[str]) -> None:
    """Raise BadSetting for an override of a key that the demo sets, or of a group with such a key."""
    for text in overrides:
        for key in OWN:
            if below(key, [key_of(text)]):
                raise BadSetting(
                    f"{text}: the demo sets {key} itself; leave it out (--dir DIRECTORY places model, data and run)"
                )


def is_whole(model: Path) -> bool:
    """Return whether a directory has a model and its tokenizer without empty files.

    Not in rpg.toy.model, which imports torch: seconds, and half a gigabyte during the training.
    """
    return all((model / name).is_file() and (model / name).stat().st_size for name in MODEL_FILES)


def prepare(directory: Path, console: Console) -> None:
    """Build toy data and model in `directory`; existing files are kept.

    Raises RuntimeError if the model's accuracy is out of range, OSError if a file cannot be written.
    """
    files = {split: directory / f"toy_{split}.parquet" for split in SIZES}
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


def accuracy_by_step(metrics: Path) -> list[tuple[int, float]]:
    """Return (step, held-out accuracy) for every validation in a metrics file."""
    records = map(json.loads, metrics.read_text().splitlines())
    return [
        (record["step"], value)
        for record in records
        for key, value in record["data"].items()
        if key.startswith(ACCURACY)
    ]


def show(curve: list[tuple[int, float]], console: Console) -> None:
    """Print the validations as a table."""
    table = Table("step", "held-out accuracy", "")
    for step, accuracy in curve:
        table.add_row(str(step), f"{accuracy:.3f}", "█" * round(40 * accuracy))
    console.print(table)


def draw(curve: list[tuple[int, float]], picture: Path) -> None:
    """Write the validations as a PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), dpi=150)
    steps, accuracies = zip(*curve, strict=True)
    axes.plot(steps, accuracies, marker="o", color="tab:blue")
    axes.set(xlabel="training step", ylabel="held-out accuracy", ylim=(0, 1))
    axes.set_title("RPG-REINFORCE with RPG-Style Clip (URKL) on sums of two numbers", fontsize=9)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture)
    pyplot.close(figure)
