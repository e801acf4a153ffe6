"""`rpg reproduce`: plans, runs, and no repeated work. Scripts and configuration are the recipe's.

tests/results/stand_in.py takes the place of the interpreter; tests/e2e/test_reproduce.py makes the real runs.
"""

import csv
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
import stand_in

from rpg.cli import main
from rpg.config import fingerprint
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.files import manifest
from rpg.registry.recipe import Script
from rpg.results import reproduction
from rpg.results.messages import ResultsError
from rpg.results.rows import rows_of
from tests.builders.checkpoints import write_complete
from tests.builders.toy_run import run_config
from tests.terminal import Terminal, assert_in_order

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
ONE = ["--profile", "cpu", "--steps", "2", "--methods", "grpo"]
FIGURE = rows_of("figure9")[0]
CALL = """
import sys
sys.executable = sys.argv[1]
from rpg.results import reproduction
reproduction.refusal = lambda run: None
from rpg.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def interpreter(tmp_path, monkeypatch) -> Path:
    """Let the stand-in make the runs; skip the preflight, which would report missing model and data."""
    stands_in = stand_in.interpreter(tmp_path / "python3")
    monkeypatch.setattr(sys, "executable", str(stands_in))
    monkeypatch.setenv("PYTHON", "/nowhere/python3")  # another interpreter than that of the command
    monkeypatch.setattr("rpg.results.reproduction.refusal", lambda run: None)
    monkeypatch.setattr("rpg.results.reproduction.POLL_SECONDS", 0.05)
    return stands_in


def reproduce(out: Path, *arguments: str) -> int:
    return main(["reproduce", "8", *arguments, "--out", str(out)])


def steps(directory: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (directory / "metrics.jsonl").read_text().splitlines()]


def starts(directory: Path) -> list[int]:
    """Return the step after which each start began."""
    return [json.loads(line)["after_step"] for line in (directory / "history.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_what_is_missing_is_run_and_what_is_done_never_again(interpreter, tmp_path, monkeypatch, capsys):
    """A run that fails is named, and the rest is done."""
    monkeypatch.setenv("STAND_IN_FAILS", "grpo_cpu-seed1")
    out = tmp_path / "out"
    assert reproduce(out, *ONE, "--seeds", "1", "3") == 1
    printed, log = capsys.readouterr(), out / "logs/grpo_cpu-seed1.log"
    assert "0 of 2 runs done, 4 steps left" in printed.out
    assert f"failed: grpo_cpu-seed1: ended at step 1 with exit code 7; {log}" in printed.err
    assert log.read_text().endswith("broken on purpose\n")
    assert "not in this table: grpo_cpu-seed1" in (out / "table.md").read_text()

    monkeypatch.delenv("STAND_IN_FAILS")
    assert reproduce(out, *ONE, "--seeds", "1", "3") == 0
    assert "1 of 2 runs done, 1 steps left" in capsys.readouterr().out
    runs = [out / "runs" / f"grpo_cpu-seed{seed}" for seed in (1, 3)]
    assert [steps(run) for run in runs] == [[0, 1, 2]] * 2
    assert [starts(run) for run in runs] == [[0, 1], [0]]
    table = (out / "table.md").read_text()
    # accuracies at step 2: 0.21 and 0.23, whose mean is 0.22 and whose standard error sqrt(0.0002 / 2)
    assert "| GRPO | 0.2200 ± 0.0100 | 0.2200 ± 0.0100 |" in table
    assert [record["runs"] for record in csv.DictReader((out / "table.csv").open())] == ["2"]
    assert all((out / name).is_file() for name in ("panels.png", "panels.svg"))

    assert reproduce(out, *ONE, "--seeds", "3", "--steps", "3") == 0  # more steps are gone on with
    assert [starts(run) for run in runs] == [[0, 1], [0, 2]]
    assert steps(runs[1]) == [0, 1, 2, 3]
    assert reproduce(out, *ONE, "rpg-urkl", "--seeds", "3", "--steps", "3", "--dry-run") == 0
    assert "1 of 2 runs done, 3 steps left" in capsys.readouterr().out
    assert reproduce(out, *ONE, "--seeds", "3") == 2
    assert "--steps 3" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "code"), [pytest.param(True, -signal.SIGKILL, marks=pytest.mark.full), (False, 130)])
def test_killed_or_interrupted_and_started_again(interpreter, tmp_path, monkeypatch, kill, code):
    monkeypatch.setenv("STAND_IN_SECONDS", "1")
    out, run = tmp_path / "out", tmp_path / "out/runs/grpo_cpu-seed1"
    arguments = ["reproduce", "8", *ONE, "--steps", "3", "--out", str(out)]
    command = [PYTHON, "-c", CALL, str(interpreter), *arguments]
    terminal = Terminal(command, tmp_path / "screen", tmp_path, dict(os.environ))
    until = time.monotonic() + 120
    while not (run / "global_step_1" / manifest.NAME).is_file() and time.monotonic() < until:
        time.sleep(0.05)
    if kill:
        terminal.process.kill()
    else:
        terminal.wait_for(r"all runs: +\d+%.* [12]/3 ")
        terminal.press_ctrl_c()
    assert terminal.wait(60) == code
    if not kill:
        assert_in_order(terminal.text(), most=7)
    assert main(arguments) == 0  # waits for the run, which ends with its parent
    assert steps(run) == [0, 1, 2, 3]
    first, again = starts(run)
    assert first == 0
    assert again in (1, 2)


def planned(tmp_path, **changes: str) -> reproduction.PlannedRun:
    """Return a planned run of two steps, with its directory; changes: of the configuration's section data."""
    (tmp_path / "r").mkdir(parents=True)
    settings = run_config({f"data.{key}": value for key, value in changes.items()} | {KEYS["steps"]: 2}).config
    return reproduction.PlannedRun(rows_of(8)[0], Script("s", Path("s.sh"), ()), "r", tmp_path / "r", settings, ())


def test_progress_is_the_last_whole_line_of_the_log(tmp_path):
    run = planned(tmp_path)
    assert run.step() == 0
    log = run.directory / "metrics.jsonl"
    log.write_text("".join(json.dumps({"step": step, "data": {}}) + "\n" for step in (0, 1, 2)))
    assert run.finished()
    log.write_text(log.read_text()[:-3])  # its last line torn by a kill
    assert run.step() == 1
    assert "trainer.val_before_train=true" not in run.command()
    write_complete(run.directory, 2)  # no step is left to make, so that a validation has to make the record
    assert "trainer.val_before_train=true" in run.command()


def test_a_training_on_other_data_in_the_directory_is_refused(tmp_path):
    """tests/recipe/test_rows.py has other settings."""
    data = tmp_path / "train.parquet"
    data.write_text("0123")
    run = planned(tmp_path, train_files=str(data))
    fingerprint.record(run.directory, RunConfig(run.config), 0, {})
    reproduction.refuse_another(run)
    data.write_text("4567")
    with pytest.raises(ResultsError, match=r"data.train_files \(content\)"):
        reproduction.refuse_another(run)
    data.unlink()  # as where the files are on a cluster's nodes
    reproduction.refuse_another(run)


@pytest.mark.parametrize(("argument", "named"), [("--parallel=2", "RAY_ADDRESS"), ("data.seed=3", "--seeds")])
def test_refused_before_anything_is_touched(interpreter, tmp_path, monkeypatch, capsys, argument, named):
    """tests/test_cli.py has an unknown method."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert main(["reproduce", "8", argument, *ONE, "--out", str(tmp_path / "out")]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "method", "script", "validated"),
    [
        ("7", "DAPO", "dapo_4b_4k", {"minerva-math", "olympiadbench"}),  # table 7's own sets
        ("figure9", FIGURE.method, FIGURE.name(), {"aime24", "aime25", "amc23"}),  # the scripts' sets
    ],
)
def test_the_plan_on_gpus(tmp_path, monkeypatch, capsys, of, method, script, validated):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RPG_HOME", str(tmp_path))  # where no data are
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert main(["reproduce", of, "--methods", method, "--seeds", "1", "2", "--dry-run"]) == 1
    shown = capsys.readouterr().out
    assert f"  {script}-seed1  {method}  step 0 of 400" in shown
    assert "0 of 2 runs done, 800 steps left" in shown
    assert f"refused: {method}\n    " in shown
    assert {*re.findall(rf"data.val_files={tmp_path}/data/([\w-]+)\.parquet: no such file", shown)} == validated
    assert not list(tmp_path.iterdir())


def test_a_figure_of_another_kind_is_refused(capsys):
    assert main(["reproduce", "figure7", "--dry-run"]) == 2
    assert "figure8, figure9" in capsys.readouterr().err
