"""`rpg doctor`: the machine, the plugin, and a run that is frozen as at a start."""

import json

import pytest

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
    assert (first[:4], first[-1]) == (["packages", "CPU", "memory", "disk"], "0")  # failed


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES])!r})", "does not register rpg, rpg_batchmean"),
        ("raise RuntimeError('broken plugin')", "RuntimeError: broken plugin"),
    ],
)
def test_plugin_answers(probe, said):
    (found,) = doctor.plugin(probe)
    assert said in str(found)
    assert not list(doctor.plugin(f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES, *ADVANTAGES])!r})"))
