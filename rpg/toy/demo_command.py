"""`rpg demo`: build the toy model and data, train through the launch script, show the result."""

import argparse
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from rpg.launching.children import call
from rpg.launching.overrides import BadSetting, check_text, key_of, override

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
ANSWERS = 4  # to each of the 256 held-out problems
ACCURACY = "val-core/toy_sum/acc/mean@"  # and the answers to a problem, which an override may change
# What the demo promises: held-out accuracy at the end above the start. Three runs on two models gained 0.390, 0.389 and
# 0.405; 0.020 is the standard deviation of two means of 1024 answers each (sqrt(2 x 0.2 / 1024)). A false alarm is 4.7
# of these away from 0.395; were the true one a third larger, 3.5, one in 4,000.
GAIN = 0.30
# A step size that falls to zero leaves less noise in the weights than the script's constant one, and less to luck.
# At 1e-4 the thirty steps are too few (+0.339); at 4e-4 the gain goes by the model that they begin with (0.33 to 0.47).
SETTINGS = [
    f"actor_rollout_ref.rollout.val_kwargs.n={ANSWERS}",
    "actor_rollout_ref.actor.optim.lr=2e-4",
    "actor_rollout_ref.actor.optim.lr_scheduler_type=cosine",
    "trainer.test_freq=15",
]
# What the demo sets itself, as it looks for the files afterwards and shows the curve of one run from its start
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
    parser.add_argument("--dir", type=Path, default=ROOT / "runs/toy", help="where model, data and run go")
    parser.add_argument("--prepare-only", action="store_true", help="stop when model and data are there")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides for the run")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 when the run succeeded and the held-out accuracy rose by at least 0.30.

    Of fewer than three validations, which overrides can ask for, the gain is not judged. 2 where overrides or --dir are
    refused, 1 where model or data cannot be made, the run's where it failed.
    """
    console = Console()
    began = time.monotonic()
    directory: Path = args.dir.resolve()
    try:
        check_text("--dir", str(directory))
        check_overrides(args.overrides)
        directory.mkdir(parents=True, exist_ok=True)
    except BadSetting as error:
        return _fail(error, 2)
    except OSError as error:
        return _fail(f"--dir {directory}: {error.strerror}; give a directory that is there or can be made", 2)
    try:
        prepare(directory, console)
    except (OSError, RuntimeError) as error:
        return _fail(error, 1)
    if args.prepare_only:
        return 0
    run_dir = directory / "demo"
    console.rule("training: stock verl, Ray, FSDP2 and vLLM on this CPU")
    command = ["bash", str(SCRIPT), override("trainer.default_local_dir", run_dir), "trainer.resume_mode=disable"]
    environment_paths = [
        override("actor_rollout_ref.model.path", directory / "model"),
        override("data.train_files", directory / "toy_train.parquet"),
        override("data.val_files", directory / "toy_test.parquet"),
    ]
    memory = PeakMemory()
    with memory:
        code = call([*command, *environment_paths, *SETTINGS, *args.overrides])
    if code:
        return code
    metrics = run_dir / "metrics.jsonl"
    try:
        curve = accuracy_by_step(metrics) if metrics.is_file() else []
    except ValueError as error:
        return _fail(error, 1)
    if not curve:
        console.print(
            f"no held-out accuracy in {metrics}, so whether it rose by {GAIN} cannot be said: trainer.test_freq and "
            "trainer.val_before_train ask for validations, trainer.logger for the file"
        )
        console.print(f"metrics, configuration, checkpoints: {run_dir}")
        return 0
    show(curve, console)
    picture = run_dir / "accuracy.png"
    draw(curve, picture)
    gain = curve[-1][1] - curve[0][1]
    console.print(f"held-out accuracy {curve[0][1]:.3f} -> {curve[-1][1]:.3f} ({gain:+.3f})")
    console.print(f"curve: {picture}\nmetrics, configuration, checkpoints: {run_dir}")
    minutes = (time.monotonic() - began) / 60
    console.print(f"{minutes:.1f} minutes; at most {memory.peak / 2**30:.1f} GiB of memory in use beyond the start")
    if len(curve) <= 2:
        console.print(f"whether the gain is {GAIN} is judged from three validations on")
    elif gain < GAIN:
        console.print(f"[red]expected a gain of at least {GAIN}")
        return 1
    return 0


def _fail(error: Exception | str, code: int) -> int:
    print(f"rpg demo: {error}", file=sys.stderr)
    return code


def check_overrides(overrides: list[str]) -> None:
    """Raise BadSetting for an override of what the demo sets itself, alone or as a part of what is above it."""
    for text in overrides:
        key = key_of(text)
        for own in OWN:
            if own == key or own.startswith(f"{key}."):
                one_by_one = "" if own == key else f" and set other keys of {key} one by one"
                raise BadSetting(
                    f"{text}: the demo sets {own} itself; leave it out{one_by_one} (--dir DIRECTORY says where model, "
                    "data and run are)"
                )


def is_whole(model: Path) -> bool:
    """Whether a directory holds a model and its tokenizer, no file of them empty.

    Here and not beside what writes them: torch takes seconds to import, and half a gigabyte beside the training.
    """
    return all((model / name).is_file() and (model / name).stat().st_size for name in MODEL_FILES)


def prepare(directory: Path, console: Console) -> None:
    """Toy data and model in directory; what is there already is kept.

    Raises RuntimeError where the data cannot be built or the model does not come out as it is meant to be, OSError
    where the model cannot be written.
    """
    train, test, model = directory / "toy_train.parquet", directory / "toy_test.parquet", directory / "model"
    if not (train.is_file() and test.is_file()):
        command = [sys.executable, "-m", "rpg.cli", "data", "build", "toy", "--out", str(directory)]
        done = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"{shlex.join(command)}: exit code {done.returncode}")
    if not is_whole(model):
        console.rule("toy model: half a million parameters, trained from scratch")
        # torch's threads wait for each other some thousand times a step; where they spin meanwhile, one busy process
        # beside them makes the training eight times slower
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from rpg.toy.model import build_toy_model

        build_toy_model(model)


def accuracy_by_step(metrics: Path) -> list[tuple[int, float]]:
    """(step, held-out accuracy) of every validation in a metrics file. Raises ValueError for two of one step."""
    curve = []
    for record in map(json.loads, metrics.read_text().splitlines()):
        keys = [key for key in record["data"] if key.startswith(ACCURACY)]
        if len(keys) > 1:
            raise ValueError(f"{metrics}: step {record['step']} has {' and '.join(keys)}; one of them was expected")
        curve += [(record["step"], record["data"][key]) for key in keys]
    return curve


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


class PeakMemory(threading.Thread):
    """Largest use of the machine's memory above that at the start, in bytes, while in the context."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._start = psutil.virtual_memory().used
        self._ended = threading.Event()
        self.peak = 0

    def __enter__(self) -> "PeakMemory":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.wait(0.5):
            self.peak = max(self.peak, psutil.virtual_memory().used - self._start)
