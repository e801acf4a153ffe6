"""The command `rpg` itself: what holds for all of its subcommands."""

from rpg import cli, verify


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "run", interrupted)
    assert cli.main(["verify"]) == 130
    assert capsys.readouterr().err == "rpg verify: interrupted\n"
