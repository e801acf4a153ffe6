"""`rpg verify --device`: it passes on the CPU, and fails for a wrong loss or one that is not compiled."""

import pytest
import torch

from rpg import cli
from rpg.objectives import losses
from rpg.objectives.proofs import on_device

NAME = "rpg_rf_urkl_clip_ppo"
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_compiled_loss(monkeypatch):
    """Compile one loss, in a fresh compiler."""
    measure, clear = on_device.measure, on_device.tokens.compiled.cache_clear
    monkeypatch.setattr(on_device, "measure", lambda device: measure(device, [NAME]))
    clear()
    torch._dynamo.reset()
    yield
    clear()
    torch._dynamo.reset()


@pytest.mark.full  # compiles for 20 s
def test_passes(capsys):
    assert cli.main(["verify", "--device", "cpu"]) == 0
    *_, compiled, last = capsys.readouterr().out.splitlines()
    assert compiled.split()[:3] == ["float32,", "compiled", "1"]
    assert last == "passed"


def test_a_loss_of_a_lower_precision_or_uncompiled_fails(monkeypatch, capsys):
    right = losses.DIVERGENCES["urkl"]
    rounded = right._replace(weight=lambda r: right.weight(r).half().to(r.w.dtype))
    monkeypatch.setitem(losses.DIVERGENCES, "urkl", rounded)
    real = on_device.evaluate

    def evaluate(loss, spec, data, mask, device):
        if data["advantages"].dtype == torch.float64:  # the expected numbers
            with monkeypatch.context() as patch:
                patch.setitem(losses.DIVERGENCES, "urkl", right)
                return real(loss, spec, data, mask, device)
        return real(loss, spec, data, mask, device)

    monkeypatch.setattr(on_device, "evaluate", evaluate)
    monkeypatch.setattr(on_device.tokens, "compiled", lambda device: on_device.token_loss_summary)
    assert cli.main(["verify", "--device", "cpu"]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    failed = [line.split("  ")[0] for line in lines if line.endswith("FAILED")]
    assert failed == ["float32, kl_scope=token", "float32, kl_scope=response", "float32, only 0 compiled"]
    assert "3 rows FAILED" in last
