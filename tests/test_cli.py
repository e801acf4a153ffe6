"""The command `rpg`: properties of all subcommands."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rpg import cli
from rpg.objectives.proofs import verify_command
from rpg.registry import recipe
from rpg.registry.list_command import cells, columns
from rpg.registry.scripts import listed

ROOT = Path(__file__).parents[1]


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_command, "run", interrupted)
    assert cli.main(["verify"]) == 130
    assert capsys.readouterr().err == "rpg verify: interrupted\n"


def test_without_a_command_all_are_listed(capsys):
    assert cli.main([]) == 2
    listed = [line.split()[0] for line in capsys.readouterr().err.splitlines() if line.startswith("    ")]
    assert cli.COMMANDS.keys() <= set(listed)


@pytest.mark.parametrize("height", [20, 60])
def test_list_in_a_terminal(height):
    """Names are whole, so that they can be copied; a header that scrolls away comes again."""
    terminal, stdout = pty.openpty()
    command = [sys.executable, "-m", "rpg.cli", "list", "--size", "cpu"]
    environment = {**os.environ, "COLUMNS": "80", "LINES": str(height)}
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(stdout)
        shown = b""
        with contextlib.suppress(OSError):  # EIO at the end
            while part := os.read(terminal, 4096):
                shown += part
    os.close(terminal)
    assert process.returncode == 0
    header, *lines = shown.decode().splitlines()
    assert header.split()[0] == "name"
    assert (lines[-1] == header) == (height == 20)
    names = [line.split()[0] for line in lines if line and line != header and not line.startswith("cpu: ")]
    assert sorted(names) == sorted(name for name, path in recipe.paths().items() if path.parent.name == "cpu")


def test_every_name_of_the_list_fits_eighty_columns():
    rows = [[text, *cells(name)] for text, name in listed().items()]
    lines = "\n".join(columns(rows, height=24)).splitlines()
    assert max(map(len, lines)) <= 80
    assert {row[0] for row in rows} <= {line.partition(" ")[0] for line in lines}


def test_options_of_the_list(capsys):
    for option, value, shown in (
        ("--size", "cpu", "dapo_cpu\tcpu"),
        ("--method", "DAPO", "dapo_cpu\tcpu\tDAPO"),
        ("--task", "gsm8k", "GSM8K"),
    ):
        assert cli.main(["list", option, value]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert 0 < len(lines) < len(listed())
        assert any(shown in line for line in lines)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["train", "grpo_cpu", "--modle", "x"], "rpg train: error: unknown option --modle; did you mean --model?"),
        (["plan", "grpo_7b", "--gup=a100"], "rpg plan: error: unknown option --gup; did you mean --gpu?"),
        (["table", "--papr", "8"], "rpg table: error: unknown option --papr; did you mean --paper?"),
        (
            ["train", "grpo_cpu", "--steps", "3"],
            "unknown option --steps; as an override: trainer.total_training_steps=",
        ),
        (["doctor", "grpo_cpu", "--learning-rate=1"], "as an override: actor_rollout_ref.actor.optim.lr=VALUE"),
        (["plan", "grpo_7b", "--gpu", "3090"], "3090 is not among h100, "),
        (["--versoin"], "rpg: error: unknown option --versoin; did you mean --version?"),
        (["list", "x"], "rpg list: error: unrecognized arguments: x"),
        (["train"], "the following arguments are required: NAME\n"),
        (["verify", "--policies", "1"], "1 is not between 2 and"),
        (["verify", "--kl-coef", "nan"], "nan is not finite"),
        (["verify", "--plot", "x.xyz"], "x.xyz: name a .png"),
        (["reproduce", "8", "--steps", "0"], "0 is not 1 or more"),
    ],
)
def test_a_wrong_option_is_named_under_its_command(argv, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(argv)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["score", "x", "--rows", "3"], "--rows requires --reward and a parquet file"),
        (["score", "x", "--reward", "r.py", "--out", "y"], "--out requires a run"),
        (["demo", "foo=1"], "foo=1: no such setting"),
        (["demo", "--prepare-only", "data.seed=1"], "data.seed=1: is for the run"),
        (["list", "--task", "foo"], "--task foo: no such name"),
        (["doctor", "--reward", "r.py"], "are of a run: name it"),
        (["reproduce", "8", "--methods", "DAPOO"], "did you mean DAPO?"),
        (
            ["train", "grpo_cpu", "method=dapoo"],
            "method=dapoo: no such entry; did you mean dapo? There are cispo, dapo,",
        ),
        (["train", "grpo_cpu", "method=deepseek_v32"], "no such entry; method=grpo_corrected has its KL term"),
        (["data", "check", "x.parquet", "--tokenizer", "nope"], "--tokenizer nope: no such directory"),
    ],
)
def test_what_would_do_nothing_is_refused_at_once(argv, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("mkdir gone; cd gone; rmdir ../gone; {rpg} list", 2, "the current directory was removed"),
        ("{rpg} list > /dev/full", 1, "the output cannot be written: No space left"),
        ("{rpg} list >&-", 0, "names:"),
        ("{rpg} lab --quick", 2, "python -m scripts.studies.lab"),
    ],
)
def test_a_broken_place_is_one_line(tmp_path, shell, code, said):
    (tmp_path / "mine.txt").touch()
    command = shell.format(rpg=f"{sys.executable} -m rpg.cli")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert said in done.stderr


def test_a_run_on_the_cpu_has_no_plan(capsys):
    assert cli.main(["plan", "grpo_cpu"]) == 2
    assert "`rpg doctor grpo_cpu`" in capsys.readouterr().err


def test_help_of_a_name_says_where_its_run_goes(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", "grpo_cpu", "--help"])
    *_, steps, place = capsys.readouterr().out.splitlines()
    assert steps == "grpo_cpu: 30 steps (trainer.total_training_steps),"
    assert place.startswith("into checkpoints/grpo_cpu ")


def test_help_of_a_build_is_grouped_by_kind_of_data(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["data", "build", "--help"])
    mine, toy = capsys.readouterr().out.partition("\nfor your own data")[2].split("\nfor toy:\n")
    assert "--question" in mine
    assert "--low" in toy


def test_an_unknown_command_names_the_nearest(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["tabel"])
    assert "'table'" in capsys.readouterr().err


def test_a_closed_pipe_is_no_traceback():
    command = [sys.executable, "-m", "rpg.cli", "table", "--paper", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


def test_verify_as_json(capsys):
    assert cli.main(["verify", "--json", "--policies", "4"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["failed"] == []
    assert {one["loss"] for one in report["losses"] if one["exact"]} >= {"rpg_rf_urkl", "rpg_urkl (clip_scope=none)"}


def test_completion(capsys, tmp_path):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--print-completion", "bash"])
    (tmp_path / "rpg.bash").write_text(capsys.readouterr().out)
    for typed, completed in (("repr", "reproduce"), ("train --rew", "--reward"), ("data bu", "build")):
        words = ["rpg", *typed.split()]
        ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_rpg; echo ${{COMPREPLY[@]}}"
        command = ["bash", "-c", f". {tmp_path}/rpg.bash; {ask}"]
        assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split() == [completed]
