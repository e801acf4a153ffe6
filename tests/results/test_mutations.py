"""Whatever is wrong with what the result commands read: no traceback, the rest is shown, the exit code says so."""

import copy
import csv
import io
import itertools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from random import Random

import mutations
import pytest

from rpg.checks.finding import ABSENT, Finding, Run
from rpg.cli import main
from rpg.launching import doctor_command
from rpg.results import export_command as export
from tests.checks.conftest import make_toy, run_of

QUICK, FULL = 60, 660
# Of every thirteen mutations; pictures take longest.
COMMANDS = ("md", "score", "export", "tex", "md", "eval", "csv", "score", "json", "md", "plot", "export", "doctor")
FOREIGN = {"md": ("<script", "<img", "](x", "](http"), "tex": ("\\input", "\\frac", "<script")}
SAID = re.compile("left out|not scored|no interval|cannot be told apart")
SEEDS = [pytest.param(seed, marks=[pytest.mark.full] if seed >= QUICK else []) for seed in range(FULL)]


def rpg(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; what is raised fails the test."""
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as refused:  # argparse
        code = refused.code
    said = capsys.readouterr()
    assert code in (0, 1, 2)
    assert "Traceback" not in said.out + said.err
    if code == 2:
        assert re.search(rf"^(usage: )?rpg {arguments[0]}", said.err)
    return code, said.out, said.err


def in_one_line(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


def check_table(kind: str, out: str) -> None:
    """The untouched run's numbers are there, no number is none, and nothing of a name has become markup."""
    if kind == "json":
        rows = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in the table"))["rows"]
        assert [(row["last"], row["best"]) for row in rows if row["method"].startswith("RPG-UFKL")] == [(0.25, 0.375)]
    elif kind == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert all(math.isfinite(float(row[column])) for row in rows for column in ("last", "best"))
        assert all(not row[column].startswith(("=", "+", "-", "@")) for row in rows for column in ("method", "judge"))
        assert all(None not in row and None not in row.values() for row in rows)
        assert ["0.25", "0.375"] in [[row["last"], row["best"]] for row in rows]
    else:
        lines = [line for line in out.splitlines() if not line.startswith("%")]  # TeX's comments
        assert not [text for text in FOREIGN[kind] for line in lines if text in line]
        assert any(re.search(r"RPG-UFKL.*0\.2500.*0\.3750", line) for line in lines)
    if kind == "md":
        for is_table, part in itertools.groupby(out.splitlines(), key=lambda line: line.startswith("|")):
            table = list(part)
            assert not is_table or len({line.count("|") for line in table}) == 1  # no name has made a cell
            assert not [line for line in table if re.search(r"\| \**(nan|inf)", line)]
    assert in_one_line(out)


def check_plot(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert in_one_line(page)
    assert ElementTree.parse(folder / "panels.svg").getroot().tag.endswith("svg")
    assert (folder / "panels.png").read_bytes()[:4] == b"\x89PNG"


def check_export(random: Random, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: Path):
    """The merger is replaced; a failed export leaves nothing, and can be tried again."""
    fails = {random.choice(["-m", "-c", "nothing"])}

    def python(arguments: list[str], what: str) -> str:
        if arguments[0] == "-m":
            Path(arguments[-1]).mkdir()
            (Path(arguments[-1]) / "weights").write_text("w")
        if arguments[0] in fails:
            raise export.ExportError(f"{what} ended with 1:\nhalf way")
        return export.ANSWER + "34"

    monkeypatch.setattr(export, "python", python)
    change = mutations.change_checkpoint(random, run)
    code, _, err = rpg(capsys, "export", run)
    written = run / "global_step_4" / "hf"
    assert written.exists() == (code == 0), change
    assert not list(run.rglob("*.partial-*"))
    if code == 1:
        assert "ended with 1" in err
        fails.clear()
        assert rpg(capsys, "export", run)[0] == 0


def check_eval(random: Random, capsys: pytest.CaptureFixture[str], run: Path, folder: Path) -> None:
    """Odd names of script, files, checkpoint and directory."""

    def named(path: Path) -> Path:
        name = random.choice(mutations.TEXTS).replace("\x00", "").replace("/", "_")
        return path.parent / name if random.random() < 0.5 and name else path

    script, checkpoint, file = folder / "run_x.sh", run / "global_step_4", folder / "x.parquet"
    for path in (script, file):
        path.touch()
    arguments = [named(script), "--out", named(folder / "out"), "--print", "--samples", random.choice([1, 0, -3])]
    if random.random() < 0.8:
        mutations.change_checkpoint(random, run)
        arguments += ["--checkpoint", named(checkpoint)]
    if random.random() < 0.5:
        arguments += ["--files", named(file)]
    code, out, _ = rpg(capsys, "eval", *arguments)
    assert code in (0, 2)
    assert (code == 0) == out.startswith("bash ")


@pytest.fixture(scope="module")
def toy_config(tmp_path_factory) -> dict:
    return run_of(make_toy(tmp_path_factory.mktemp("toy"))).config


def check_doctor(
    random: Random, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: Path, config: dict
) -> None:
    """A run that would go on in a directory with a damaged checkpoint; the plugin is not asked anew each time."""
    monkeypatch.setattr(doctor_command, "plugin", lambda name, probe: Finding(name, ABSENT, "not asked", level="ok"))
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    print(mutations.change_checkpoint(random, run))
    tracker = run / "latest_checkpointed_iteration.txt"
    if tracker.is_file() and random.random() < 0.5:
        tracker.write_text(random.choice(["4", "", "x", "-1", "2", "4\n\n"]))
    settings = copy.deepcopy(config)
    settings["trainer"]["default_local_dir"] = str(run)
    if random.random() < 0.3:
        settings["trainer"].update(resume_mode="resume_path", resume_from_path=str(run / "global_step_4"))
    monkeypatch.setattr(doctor_command, "of_script", lambda script, overrides: Run(settings))
    code, out, _ = rpg(capsys, "doctor", "grpo_cpu")
    assert code in (0, 1)
    assert (code == 1) == ("FAIL  " in out)
    assert "configuration: " in out
    assert in_one_line(out)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_mutation_ends_a_command(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, toy_config: dict
) -> None:
    random = Random(seed)
    command = COMMANDS[seed % len(COMMANDS)]
    _, run = mutations.scene(tmp_path)
    if command == "export":
        check_export(random, capsys, monkeypatch, run)
        return
    if command == "eval":
        check_eval(random, capsys, run, tmp_path)
        return
    if command == "doctor":
        check_doctor(random, capsys, monkeypatch, run, toy_config)
        return
    change = mutations.change_samples if command == "score" and random.random() < 0.5 else None
    change = change or mutations.RUN_CHANGES[seed // len(COMMANDS) % len(mutations.RUN_CHANGES)]
    print(change(random, run))
    runs = tmp_path / "runs"
    if command == "score":
        code, out, err = rpg(capsys, "score", runs, "--judge", "release")
        check_table("md", out)
        assert (runs / mutations.GOOD / "judge-release" / "metrics.jsonl").is_file()
    elif command == "plot":
        code, out, err = rpg(capsys, "plot", runs, "--out", tmp_path / "plots")
        check_plot(tmp_path / "plots")
    else:
        code, out, err = rpg(capsys, "table", runs, "--format", command)
        check_table(command, out)
    assert code == bool(SAID.search(out + err))
