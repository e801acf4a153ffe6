"""`rpg demo`: build model and data, train as the launch script does, show the result."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from rpg.config.compose import of_script
from rpg.config.verl_keys import MODEL
from rpg.files.atomic import SAMPLES
from rpg.overrides import override
from rpg.registry import scripts
from rpg.results.figures import plot
from rpg.results.runs import load
from rpg.results.table import build_table
from rpg.run.directory import brief
from rpg.run.start import dry_run, start
from rpg.toy.demo import DEMOS, show_answers


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg demo`."""
    about = "smollm2 (default): SmolLM2-135M-Instruct, a download of 93 MB; toy: half a million parameters"
    parser.add_argument("--model", choices=DEMOS, default="smollm2", help=about)
    parser.add_argument("--dir", type=Path, metavar="DIR", help="folder of model, data and run (default: runs/MODEL)")
    parser.add_argument("--prepare-only", action="store_true", help="write model and data, do not train")
    parser.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help="KEY=VALUE, a Hydra override")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 when the run succeeded and the held-out accuracy rose by the gain of the demo.

    The gain is not checked with fewer than three validations, which overrides can cause. Returns 2 if overrides or
    --dir are rejected, 1 if model or data cannot be built, and the run's exit code if it failed.
    """
    console, began, demo = Console(), time.monotonic(), DEMOS[args.model]
    directory: Path = (args.dir or scripts.home() / "runs" / args.model).resolve()  # where model and dataset look
    run_dir = directory / "demo"
    settings = [
        override("trainer.default_local_dir", run_dir),
        override(f"{MODEL}.path", directory / demo.model),
        override("data.train_files", directory / f"{demo.task}_train.parquet"),
        override("data.val_files", directory / f"{demo.task}_test.parquet"),
        *demo.settings,
        *args.overrides,
    ]
    script = scripts.find(demo.script)
    of_script(script, settings)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        demo.prepare(directory, console)
    except (OSError, RuntimeError) as error:
        print(f"rpg demo: {error}", file=sys.stderr)
        return 1
    if args.prepare_only:
        console.print(f"model and data: {directory}", soft_wrap=True)
        return 0
    console.print(f"[bold]{demo.announced}: verl, Ray, FSDP2, vLLM on this CPU")
    code = start(script.name, [*script.overrides, *settings])
    if code or dry_run():
        return code
    run = load(run_dir)
    validations = run.accuracies.mean(axis=1).dropna()  # of one set
    if len(validations):
        if demo.shows_answers:
            show_answers(run_dir / SAMPLES, console)
        console.print("held-out accuracy by step:", *(f"{step}: {value:.3f}" for step, value in validations.items()))
        picture, _ = plot(build_table([run]), run_dir)
        console.print(f"picture: {brief(picture)}", soft_wrap=True)
    console.print(f"metrics, configuration, checkpoints: {brief(run_dir)}", soft_wrap=True)
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    if len(validations) < 3:
        console.print(f"{len(validations)} validations: the gain is only judged with three or more (trainer.test_freq)")
        return 0
    gain = validations.iloc[-1] - validations.iloc[0]
    console.print(f"gain {gain:+.3f}, expected at least {demo.gain}")
    return int(gain < demo.gain)
