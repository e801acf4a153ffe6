"""The command `rpg`: properties of all subcommands."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest

from rpg import cli
from rpg.objectives import verify_command
from rpg.registry import recipe


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
    names = [line.split()[0] for line in lines if line != header]
    assert names == [name for name, path in recipe.paths().items() if path.parent.name == "cpu"]


def test_a_run_on_the_cpu_has_no_plan(capsys):
    assert cli.main(["plan", "grpo_cpu"]) == 2
    assert "`rpg doctor grpo_cpu`" in capsys.readouterr().err


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
