"""Every row and the tokenizer, which takes long: asked by `rpg doctor`."""

from collections.abc import Iterator
from pathlib import Path

from rpg.checks.finding import ABSENT, Finding, Run, check
from rpg.checks.inputs import elsewhere
from rpg.data.check import check_file, check_overlap, prompt_length
from rpg.data.readers import DataError

MODEL = "actor_rollout_ref.model.path"


@check("rows", "every row can be trained or evaluated on, no prompt is cut, no test problem is among the training ones",
       "data.train_files", "data.val_files", "data.max_prompt_length", MODEL, cost="thorough",
       subject="files")  # fmt: skip
def rows(run: Run) -> Iterator[Finding]:
    """As `rpg data check` does, with the model's tokenizer."""
    length, checked = None, []
    if run.model.is_dir():
        try:
            length = prompt_length(str(run.model))
        except DataError as error:
            yield Finding(MODEL, run.get(MODEL), f"tokenizer: {error}", "copy the model again")
    for name in dict.fromkeys([*run.files("train"), *run.files("val")]):
        path = Path(name).expanduser()
        if path.is_file():
            checked.append(check_file(path, length, run.get("data.max_prompt_length")))
        elif elsewhere(name):
            yield Finding(name, ABSENT, "is not on this machine", level="skip")
    check_overlap(checked)
    for file in checked:
        errors = file.findings.count("error")
        first = next((line.strip() for line in file.findings.lines()), "")
        if errors:
            yield Finding(str(file.path), ABSENT, f"{errors} errors, first: {first}", f"rpg data check {file.path}")
        else:
            yield Finding(str(file.path), ABSENT, file.summary().removeprefix(f"{file.path}: "), level="ok")
