"""`rpg demo`: build the toy model and data, train through the launch script, show the result."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from rpg.config.compose import of_script
from rpg.config.keys import KEYS
from rpg.diagnostics import BadSetting, Refused
from rpg.overrides import check_text, override
from rpg.registry import recipe
from rpg.run.processes import brief, call
from rpg.run.start import dry_run
from rpg.toy.demo import GAIN, SCRIPT, SETTINGS, accuracy_by_step, check_overrides, draw, prepare, show


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg demo`."""
    parser.add_argument("--dir", type=Path, metavar="DIR", help="of model, data and run; default: runs/toy")
    parser.add_argument("--prepare-only", action="store_true", help="stop when model and data are there")
    parser.add_argument("overrides", nargs="*", default=[], help="Hydra overrides for the run")


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
        if args.prepare_only and args.overrides:
            raise BadSetting(f"{args.overrides[0]}: is for the run, and --prepare-only starts none; leave it out")
        of_script(recipe.find(SCRIPT), [*SETTINGS, *args.overrides])
        directory.mkdir(parents=True, exist_ok=True)
    except (BadSetting, Refused, OSError) as error:
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
        override(KEYS["directory"], run_dir),
        f"{KEYS['resume_mode']}=disable",
        override(KEYS["model"], directory / "model"),
        override(KEYS["train_files"], directory / "toy_train.parquet"),
        override(KEYS["val_files"], directory / "toy_test.parquet"),
    ]
    code = call(["bash", str(recipe.paths()[SCRIPT]), *settings, *SETTINGS, *args.overrides])
    if code or dry_run():
        return code
    metrics = run_dir / "metrics.jsonl"
    curve = accuracy_by_step(metrics) if metrics.is_file() else []
    if curve:
        show(curve, console)
        draw(curve, run_dir / "accuracy.png")
        console.print(f"picture: {brief(run_dir / 'accuracy.png')}", soft_wrap=True)
    console.print(f"metrics, configuration, checkpoints: {brief(run_dir)}", soft_wrap=True)
    console.print(f"all curves: rpg plot {brief(run_dir)}", soft_wrap=True)
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
