"""`rpg demo`: build the toy model and data, train through the launch script, show the result."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rpg.config.overrides import BadSetting, check_text, key_of, override
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import SIZES, toy_problems
from rpg.registry import recipe
from rpg.run.processes import call

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
    f"actor_rollout_ref.rollout.val_kwargs.n={ANSWERS}",
    "actor_rollout_ref.actor.optim.lr=2e-4",
    "actor_rollout_ref.actor.optim.lr_scheduler_type=cosine",
    "trainer.test_freq=15",
]
# set by the demo, which reads these files afterwards and shows the curve of one run from its start
OWN = (
    "trainer.default_local_dir",
    "trainer.resume_mode",
    "actor_rollout_ref.model.path",
    "data.train_files",
    "data.val_files",
)
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg demo`."""
    parser.add_argument("--dir", type=Path, metavar="DIR", help="of model, data and run; default: runs/toy")
    parser.add_argument("--prepare-only", action="store_true", help="stop when model and data are there")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides for the run")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 when the run succeeded and the held-out accuracy rose by at least 0.30.

    The gain is not checked with fewer than three validations, which overrides can cause. Returns 2 if overrides or
    --dir are rejected, 1 if model or data cannot be built, and the run's exit code if it failed.
    """
    console = Console()
    began = time.monotonic()
    directory: Path = (args.dir or recipe.home() / "runs/toy").resolve()  # where model=toy and dataset=toy look
    try:
        check_text("--dir", str(directory))
        check_overrides(args.overrides)
        directory.mkdir(parents=True, exist_ok=True)
    except (BadSetting, OSError) as error:
        return _fail(error, 2)
    try:
        prepare(directory, console)
    except (OSError, RuntimeError) as error:
        return _fail(error, 1)
    if args.prepare_only:
        console.print(f"model and data of model=toy dataset=toy: {directory}", soft_wrap=True)
        return 0
    console.rule("training: verl, Ray, FSDP2 and vLLM on this CPU, 5 minutes")
    run_dir = directory / "demo"
    settings = [
        override("trainer.default_local_dir", run_dir),
        "trainer.resume_mode=disable",
        override("actor_rollout_ref.model.path", directory / "model"),
        override("data.train_files", directory / "toy_train.parquet"),
        override("data.val_files", directory / "toy_test.parquet"),
    ]
    if code := call(["bash", str(recipe.paths()[SCRIPT]), *settings, *SETTINGS, *args.overrides]):
        return code
    metrics = run_dir / "metrics.jsonl"
    curve = accuracy_by_step(metrics) if metrics.is_file() else []
    if curve:
        show(curve, console)
        draw(curve, run_dir / "accuracy.png")
    console.print(f"metrics, configuration, checkpoints: {run_dir}")
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    if len(curve) < 3:
        console.print(
            f"{len(curve)} validations in {metrics}: the gain of {GAIN} is only judged with three or more "
            "(trainer.test_freq, trainer.val_before_train, trainer.logger)"
        )
        return 0
    gain = curve[-1][1] - curve[0][1]
    console.print(f"held-out accuracy {curve[0][1]:.3f} -> {curve[-1][1]:.3f} ({gain:+.3f})")
    if gain < GAIN:
        console.print(f"[red]expected a gain of at least {GAIN}")
        return 1
    return 0


def _fail(error: Exception, code: int) -> int:
    print(f"rpg demo: {error}", file=sys.stderr)
    return code


def check_overrides(overrides: list[str]) -> None:
    """Raise BadSetting for an override of a key that the demo sets, or of a group with such a key."""
    for text in overrides:
        for own in OWN:
            if f"{own}.".startswith(f"{key_of(text)}."):
                raise BadSetting(
                    f"{text}: the demo sets {own} itself; leave it out (--dir DIRECTORY places model, data and run)"
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
