"""The command `rpg`: properties of all subcommands."""

import subprocess
import sys
from pathlib import Path

import pytest

from rpg import cli
from rpg.objectives.proofs import verify_command

ROOT = Path(__file__).parents[1]


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_command, "run", interrupted)
    assert cli.main(["verify"]) == 130
    assert capsys.readouterr().err == "rpg verify: interrupted\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["list", "x"], "rpg list: error: unrecognized arguments: x"),
        (["data", "build", "--form", "a.csv"], "rpg data: error: unrecognized arguments: --form"),
        (["verify", "--policies", "1"], "1 is not between 2 and"),
    ],
)
def test_a_wrong_option_is_named_under_its_command(argv, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(argv)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lab", "--quick"], "python -m scripts.studies.lab"),  # a removed command, and options
        (["data", "build", "--repeat=3"], "rpg data: --repeat: for more answers"),
        (["plan", "grpo_7b", "--nodes", "2", "trainer.nnodes=2"], "rpg plan: --nodes: as an override: "),
        (["plan", "grpo_cpu"], "`rpg doctor grpo_cpu`"),
        (["data", "check", "x.parquet", "--model", "nope"], "nope: no tokenizer"),
    ],
)
def test_what_would_do_nothing_is_refused_at_once(argv, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_traceback():
    command = [sys.executable, "-m", "rpg.cli", "table", "--paper", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")
