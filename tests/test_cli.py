"""The command `rpg` itself: what holds for all of its subcommands."""

from rpg import cli
from rpg.objectives import verify_command


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_command, "run", interrupted)
    assert cli.main(["verify"]) == 130
    assert capsys.readouterr().err == "rpg verify: interrupted\n"
