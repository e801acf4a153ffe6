"""`rpg verify` passes, fails for a wrong loss, and draws its picture."""

import json
import re

import pytest
import torch

from rpg import cli
from rpg.objectives import LOSS_NAMES, losses

torch.set_num_threads(1)


def test_passes_lists_every_loss_and_draws(tmp_path, capsys):
    target = tmp_path / "new" / "coefficients.png"
    assert cli.main(["verify", "--policies", "6", "--outcomes", "5", "--plot", str(target)]) == 0
    printed = capsys.readouterr().out
    for name in LOSS_NAMES:
        assert re.search(rf"^{name}\b", printed, re.MULTILINE), name
    exact = [line for line in printed.splitlines() if re.search(r"\bexact\b", line)]
    # of each divergence the differentiable and the REINFORCE loss, 4 with Z_old, corrected GRPO; kl_scope=response
    # where pi_theta has not moved, and at three moves for the two forward divergences
    assert len(exact) == 2 * len(losses.DIVERGENCES) + 5 + len(losses.DIVERGENCES) + 2 * 3
    assert max(map(len, printed.splitlines()[:-1])) <= 80  # the last line has the path
    share = re.search(r"misses the gradient of UKL by ([\d.]+)%", printed)
    assert share is not None
    assert float(share[1]) > 5
    assert target.stat().st_size > 20_000  # an empty figure is smaller


@pytest.mark.parametrize(
    ("divergence", "weight"),
    [
        ("rkl", lambda r: -2 * r.log_u * r.w),  # without its "+ 1": right up to a baseline for w, wrong when clipped
        ("ufkl", lambda r: r.w * float("nan")),
    ],
)
def test_a_wrong_loss_makes_it_fail(monkeypatch, capsys, divergence, weight):
    monkeypatch.setitem(losses.DIVERGENCES, divergence, losses.DIVERGENCES[divergence]._replace(weight=weight))
    assert cli.main(["verify", "--policies", "4", "--outcomes", "5"]) == 1
    failed = capsys.readouterr().out.splitlines()[-1]
    assert f"rpg_rf_{divergence}" in failed
    assert "rpg_rf_fkl" not in failed


def test_a_wrong_sum_over_the_response_makes_it_fail(monkeypatch, capsys):
    monkeypatch.setattr(losses, "sum_later", torch.zeros_like)
    assert cli.main(["verify", "--policies", "4", "--outcomes", "5", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] == [f"{d} with kl_scope=response, move 0" for d in ("rkl", "urkl")]
    bias = {(row["divergence"], row["scope"], row["move"]): row["bias"] for row in result["kl_scopes"]}
    assert bias["rkl", "response", 0.0] == pytest.approx(bias["rkl", "token", 0.0])
