"""The command `rpg`: properties of all subcommands."""

import subprocess
import sys
from pathlib import Path

import pytest

from rpg import cli
from rpg.checks.preflight import CHECKS, name_of
from rpg.objectives.proofs import verify_command

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


def test_a_removed_command_says_what_to_use(capsys):
    assert cli.main(["lab", "--quick"]) == 2
    assert "python -m scripts.studies.lab" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["train", "grpo_cpu", "--modle", "x"], "rpg train: error: unknown option --modle; did you mean --model?"),
        (["plan", "grpo_7b", "--gpu", "3090"], "invalid choice: '3090'"),
        (["list", "x"], "rpg list: error: unrecognized arguments: x"),
        (["data", "build", "--form", "a.csv"], "rpg data build: error: unknown option --form; did you mean --from?"),
        (["verify", "--policies", "1"], "1 is not between 2 and"),
        (["doctor", "-v"], "-v: `rpg doctor --list`"),
        (["plan", "grpo_7b", "--memory", "24"], "--memory: as an override: rpg.gpu_memory="),
        (["plot", "x", "--title", "t"], "--title: there is no HTML page; "),
        (["verify", "--plot=x.png"], "rpg verify: error: --plot: docs/mathematics.md"),
    ],
)
def test_a_wrong_option_is_named_under_its_command(argv, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(argv)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["demo", "foo=1"], "foo=1: no such setting"),
        (["plan", "grpo_cpu"], "`rpg doctor grpo_cpu`"),
        (["demo", "--prepare-only", "data.seed=1"], "data.seed=1: is for the run"),
        (["list", "--method", "dapoo"], "did you mean dapo?"),
        (["doctor", "--reward", "r.py"], "is for a run; give its NAME"),
        (["reproduce", "8", "--methods", "DAPOO"], "did you mean DAPO?"),
        (["train", "grpo_cpu", "method=dapoo"], "method=dapoo: no such entry; there are cispo, dapo,"),
        (["data", "check", "x.parquet", "--model", "nope"], "--model nope: no such directory"),
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


def test_completion(capsys, tmp_path):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--print-completion", "bash"])
    (tmp_path / "rpg.bash").write_text(capsys.readouterr().out)
    for typed, completed in (("repr", "reproduce"), ("train --rew", "--reward"), ("data bu", "build")):
        words = ["rpg", *typed.split()]
        ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_rpg; echo ${{COMPREPLY[@]}}"
        command = ["bash", "-c", f". {tmp_path}/rpg.bash; {ask}"]
        assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split() == [completed]


def test_the_list_of_checks_has_all(capsys):
    assert cli.main(["doctor", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name_of(check)}: " in listed for checks in CHECKS.values() for check in checks)
