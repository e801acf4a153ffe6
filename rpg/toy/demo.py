"""The demos: what they train, and how a run's accuracies and answers are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rpg.config.verl_keys import OPTIM, ROLLOUT
from rpg.results.runs import read_lines
from rpg.toy import smollm2, sums

ANSWERS = 4  # answers to each of the toy model's 256 held-out problems
SHOWN = 10  # problems whose answers are shown


@dataclass(frozen=True)
class Demo:
    """A model that learns on this machine.

    Attributes:
        model: name of the model's directory. task: TASK of its files TASK_train.parquet and TASK_test.parquet.
        script: name of the run.
        settings: overrides.
        gain: required gain of held-out accuracy.
        announced: what is trained, and how long it takes.
        prepare: builds model and data in a directory and keeps what is there.
        shows_answers: whether the answers of the first and the last validation are worth reading.
    """

    model: str
    task: str
    script: str
    settings: tuple[str, ...]
    gain: float
    announced: str
    prepare: Callable[[Path, Console], None]
    shows_answers: bool = False


DEMOS = {  # by folder below runs/, where the Hydra groups `model` and `dataset` look
    # A pre-trained model. The reference is the initial model, so that the run's KL is one to it. Four updates a batch.
    "smollm2": Demo(
        smollm2.MODEL,
        smollm2.TASK,
        "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_noiterref_smollm2",
        ("trainer.total_training_steps=12", "trainer.test_freq=4"),
        0.20,  # five runs of 30 steps gained 0.50 to 0.60, 0.30 to 0.45 of it in the first five
        "a pre-trained model of 135 million parameters",
        smollm2.prepare,
        shows_answers=True,
    ),
    # A decaying learning rate ends with less noise than the script's constant one. At 1e-4 thirty steps are too few
    # (+0.339); at 4e-4 the gain depends on the initial model (0.33 to 0.47). Three runs on two models gained 0.390,
    # 0.389 and 0.405; 0.020 is the standard deviation of the difference of two means of 1024 answers
    # (sqrt(2 x 0.2 / 1024)). A false alarm is 4.7 of these below 0.395, or 3.5 (one in 4,000) if the true deviation is
    # a third larger.
    "toy": Demo(
        "model",
        "toy",
        "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28",
        (
            f"{ROLLOUT}.val_kwargs.n={ANSWERS}",
            f"{OPTIM}.lr=2e-4",
            f"{OPTIM}.lr_scheduler_type=cosine",
            "trainer.test_freq=15",
        ),
        0.30,
        "a model of half a million parameters",
        sums.prepare,
    ),
}


def show_answers(validations: Path, console: Console) -> None:
    """Print an answer to each of the same problems in the first and the last validation, side by side."""
    files = sorted(validations.glob("*.jsonl"), key=lambda file: int(file.stem))
    first, last = (_first_answers(file) for file in (files[0], files[-1]))
    table = Table("problem", "truth", f"step {files[0].stem}", f"step {files[-1].stem}")
    for text, sample in [*first.items()][:SHOWN]:
        table.add_row(text.splitlines()[-1], sample["gts"], _marked(sample), _marked(last[text]))
    console.print(table)


def _first_answers(file: Path) -> dict[str, dict]:
    answers: dict[str, dict] = {}
    for sample in read_lines(file):
        answers.setdefault(sample["input"], sample)
    return answers


def _marked(sample: dict) -> str:
    text = escape((sample["output"].strip().splitlines() or ["(nothing)"])[0])
    return f"{text} [green]✓" if sample["acc"] else f"{text} [red]✗"
