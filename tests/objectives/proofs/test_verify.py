"""`rpg verify` passes with one table and a verdict, and fails for a wrong loss."""

import pytest
import torch

from rpg import cli
from rpg.names import DIVERGENCES as NAMES
from rpg.objectives import LOSS_NAMES, losses
from rpg.objectives.proofs.verify_command import KINDS


def row(printed: str, label: str) -> list[str]:
    """Return number and mark of each cell, fkl, rkl, ufkl, urkl or by move."""
    [line] = [line for line in printed.splitlines() if line.startswith(label)]
    words = line.removeprefix(label).split()
    return [" ".join(pair) for pair in zip(words[::2], words[1::2], strict=True)]


def test_passes_on_one_screen_with_every_loss(capsys):
    assert {name.format(d) for _, name, *_ in KINDS for d in NAMES} == set(LOSS_NAMES)
    assert cli.main(["verify", "--policies", "6"]) == 0
    printed = capsys.readouterr().out
    *above, last = printed.splitlines()
    # of each divergence both unclipped losses, 4 with Z_old, GRPO's KL term with its weight; kl_scope=response where
    # pi_theta has not moved, and at three moves for the two forward divergences
    exact = 2 * len(NAMES) + 5 + len(NAMES) + 2 * 3
    # 5 clips, GRPO's KL term without a weight; kl_scope=token at four moves, =response at three for reverse ones
    biased = 5 * len(NAMES) + 1 + 4 * len(NAMES) + 2 * 3
    assert last == f"{exact} exact as required, {biased} biased as expected: passed"
    assert len(above) < 40
    assert max(map(len, above)) <= 80
    assert float(row(printed, "GRPO's KL term alone, k3")[0].split()[0]) > 0.05


@pytest.mark.parametrize(
    ("divergence", "weight"),
    [
        ("rkl", lambda r: -2 * r.log_u * r.w),  # without its "+ 1": right up to a baseline for w, wrong when clipped
        ("ufkl", lambda r: r.w * float("nan")),
    ],
)
def test_a_wrong_loss_makes_it_fail(monkeypatch, capsys, divergence, weight):
    monkeypatch.setitem(losses.DIVERGENCES, divergence, losses.DIVERGENCES[divergence]._replace(weight=weight))
    assert cli.main(["verify", "--policies", "4"]) == 1
    printed = capsys.readouterr().out
    marks = [cell[-1] for cell in row(printed, "rpg_rf_<d> ")]
    assert marks == ["!" if name == divergence else "=" for name in NAMES]
    assert printed.splitlines()[-1].endswith("FAILED")


def test_a_clip_without_effect_makes_it_fail(monkeypatch, capsys):
    monkeypatch.setattr(losses, "clamp_ratio", lambda r, spec: r)
    assert cli.main(["verify", "--policies", "4"]) == 1
    printed = capsys.readouterr().out
    assert {cell[-1] for cell in row(printed, "rpg_rf_<d>_clip_hard, Remark F.2")} == {"!"}
    assert ", 4 neither: FAILED" in printed


def test_a_wrong_sum_over_the_response_makes_it_fail(monkeypatch, capsys):
    monkeypatch.setattr(losses, "sum_later", torch.zeros_like)
    assert cli.main(["verify", "--policies", "4"]) == 1
    printed = capsys.readouterr().out
    for divergence in ("rkl", "urkl"):
        token, response = (row(printed, f"{divergence}, kl_scope={scope}") for scope in ("token", "response"))
        assert response[0] == token[0].replace("~", "!")
        assert response[1:] == token[1:]
    assert ", 2 neither: FAILED" in printed
