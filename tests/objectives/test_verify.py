"""`rpg verify`: passes as shipped, fails when a loss is wrong, and draws its picture."""

import re

import pytest
import torch

from rpg import cli
from rpg.objectives import LOSS_NAMES, losses
from rpg.objectives import verify_command as verify

torch.set_num_threads(1)


def test_passes_and_lists_every_loss(capsys):
    assert cli.main(["verify", "--policies", "6", "--outcomes", "5"]) == 0
    printed = capsys.readouterr().out
    for name in LOSS_NAMES:
        assert re.search(rf"^{name}\b", printed, re.MULTILINE), name
    exact = [line for line in printed.splitlines() if re.search(r"\bexact\b", line)]
    # of each divergence the differentiable and the REINFORCE loss, 4 with Z_old, corrected GRPO; two choices of pi_old
    # at three distances, and all four where behaviour and anchor are one policy
    assert len(exact) == 2 * len(losses.DIVERGENCES) + 5 + 2 * 3 + 4
    share = re.search(r"misses the gradient of UKL by ([\d.]+)%", printed)
    assert share is not None
    assert float(share[1]) > 5


def test_a_wrong_loss_makes_it_fail(monkeypatch, capsys):
    """RKL's weight without its "+ 1" is URKL's: right up to a baseline for w, wrong for the clipped rest."""
    broken = losses.DIVERGENCES["rkl"]._replace(weight=lambda r: -2 * r.log_u * r.w)
    monkeypatch.setitem(losses.DIVERGENCES, "rkl", broken)
    assert cli.main(["verify", "--policies", "4", "--outcomes", "5"]) == 1
    failed = capsys.readouterr().out.splitlines()[-1]
    assert failed.startswith("FAILED")
    assert "rpg_rf_rkl" in failed
    assert "rpg_rf_fkl" not in failed


def test_nan_counts_as_failure(monkeypatch, capsys):
    broken = losses.DIVERGENCES["ufkl"]._replace(weight=lambda r: r.w * float("nan"))
    monkeypatch.setitem(losses.DIVERGENCES, "ufkl", broken)
    assert cli.main(["verify", "--policies", "2", "--outcomes", "3"]) == 1
    capsys.readouterr()


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_picture_coefficients_are_the_clip(advantage):
    """RPG-Style Clip with beta = 0: w between the bounds, held at hi, or at lo and c, outside."""
    from rpg.objectives import LossSpec

    w = torch.tensor([0.5, 0.9, 1.2, 2.0, 12.0], dtype=torch.float64)
    spec = LossSpec.parse("rpg_rf_urkl_clip_ppo", kl_coef=0.0)
    loss, gradient = verify.coefficients(spec, advantage, w)
    held = [0.5, 0.9, 1.2, 1.28, 1.28] if advantage > 0 else [0.8, 0.9, 1.2, 2.0, 10.0]
    passed = [0.5, 0.9, 1.2, 0.0, 0.0] if advantage > 0 else [0.0, 0.9, 1.2, 2.0, 0.0]
    torch.testing.assert_close(loss, torch.tensor(held, dtype=torch.float64))
    torch.testing.assert_close(gradient, torch.tensor(passed, dtype=torch.float64))


def test_plot_writes_a_picture(tmp_path, capsys):
    target = tmp_path / "new" / "coefficients.png"
    assert cli.main(["verify", "--policies", "2", "--outcomes", "3", "--plot", str(target)]) == 0
    assert target.read_bytes().startswith(b"\x89PNG")
    assert target.stat().st_size > 20_000  # an empty figure is smaller
    capsys.readouterr()
