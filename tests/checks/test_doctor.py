"""`rpg doctor`: the machine, the plugin, and a run that is frozen as at a start."""

import json

from rpg.checks import doctor_command as doctor
from rpg.cli import main
from rpg.names import ADVANTAGES


def test_the_run_is_frozen_as_at_a_start(bare_environment, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "plugin", lambda probe: [])
    monkeypatch.setattr(doctor, "CHECKS", ())
    assert main(["doctor", "grpo_cpu", "trainer.logger=[file,wandb]"]) == 0
    assert "warn  configuration: note: no W&B key" in capsys.readouterr().out
    assert main(["doctor"]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert (first[:4], first[-2:]) == (["packages", "CPU", "memory", "disk"], ["Ray", "0"])  # 0 failed


def test_plugin_answers():
    for names, missing in ((doctor.LOSS_NAMES, [*ADVANTAGES]), ((*doctor.LOSS_NAMES, *ADVANTAGES), [])):
        found = list(doctor.plugin(f"print('\\nPROBE' + {json.dumps([*names])!r})"))
        assert [f"does not register {', '.join(missing)} " in str(one) for one in found] == [True] * bool(missing)
    (broken,) = doctor.plugin("raise RuntimeError('broken plugin')")
    assert "RuntimeError: broken plugin" in str(broken)
