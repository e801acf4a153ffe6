"""The command `rpg`: properties of all subcommands."""

import json
import subprocess
import sys

import pytest

from rpg import cli
from rpg.objectives import verify_command


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_command, "run", interrupted)
    assert cli.main(["verify"]) == 130
    assert capsys.readouterr().err == "rpg verify: interrupted\n"


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
