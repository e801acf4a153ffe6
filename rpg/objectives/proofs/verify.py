"""The rows of `rpg verify`: every loss against the exact gradient of its objective, measured, printed and drawn."""

import dataclasses
import math
from pathlib import Path
from typing import NamedTuple

import torch

from rpg.objectives import LOSS_NAMES, LossSpec, token_loss
from rpg.objectives.losses import DIVERGENCES
from rpg.objectives.proofs.exact import (
    PerSampleLoss,
    Problem,
    Result,
    compare,
    corrected_grpo_loss,
    grpo_loss,
    loss_gradient,
    objective_gradient,
    random_problem,
    spec_loss,
)
from rpg.objectives.proofs.responses import DISTANCES, LENGTH, VOCABULARY, ScopeResult

TOLERANCE = 1e-10
CLIPS = {"dual": "Eq. 4.1", "hard": "Remark F.2", "ppo": "Algorithm 2"}  # where the paper states a REINFORCE clip


class Row(NamedTuple):
    """One line of the table: a loss, its objective's divergence, and whether the loss must be exact."""

    label: str
    divergence: str
    loss: PerSampleLoss
    exact: bool
    z_old: float = 1.0

    def fails(self, result: Result) -> bool:
        """Whether it must be exact and is not; NaN is not."""
        return self.exact and not result.error <= TOLERANCE


def print_scopes(scopes: list[ScopeResult], policies: int) -> None:
    """Print error, bias and noise of both KL scopes against the gradient of the KL of responses."""
    distances = ", ".join(f"{distance:g}" for distance in DISTANCES)
    print(
        f"\nThe KL of responses, by enumeration: {LENGTH} tokens, vocabulary {VOCABULARY}; {policies} policies for\n"
        f"each std of the logits of pi_ref less pi_old ({distances}).\n"
        "move: std of the logits of pi_theta less pi_old, which sampled\n"
        "Unclipped losses of both estimators, beta = 1 and no reward, against the\n"
        "gradient of the KL.   std: noise of one response\n"
    )
    heads = "".join(f"{f'bias {distance:g}':>9}" for distance in DISTANCES)
    heads += "".join(f"{'std':>6}" for _ in DISTANCES)
    print(f"{'KL':<4} {'kl_scope':<8} {'move':<5} {'must be':<7}{'error':>8}{heads}")
    for row in scopes:
        cells = "".join(f"{bias:9.1e}" for bias in row.bias) + "".join(f"{std:6.2f}" for std in row.std)
        print(
            f"{row.divergence:<4} {row.scope:<8} {row.move:<5g} "
            f"{'exact' if row.exact else 'biased':<7}{row.error:8.1e}{cells}"
        )


def scope_label(row: ScopeResult) -> str:
    """Return the name of a row in the list of failures."""
    return f"{row.divergence} with kl_scope={row.scope}, move {row.move:g}"


def rows(kl_coef: float) -> list[Row]:
    """The losses of the table: exact ones, clipped ones, and GRPO's KL term without and with its weight."""
    table = []
    for name, (divergence, estimator, clip) in LOSS_NAMES.items():
        scopes = ("none", "reward", "regularized") if estimator == "differentiable" else ("reward",)
        for scope in scopes:
            spec = LossSpec.parse(name, kl_coef=kl_coef, clip_scope=scope)
            label = f"{name} (clip_scope={scope})" if estimator == "differentiable" else name
            label += f" ({CLIPS[clip]})" if estimator == "reinforce" and clip in CLIPS else ""
            table.append(Row(label, divergence, spec_loss(spec), scope == "none" or clip == "none"))
    for name in ("rpg_ufkl", "rpg_urkl", "rpg_rf_ufkl", "rpg_rf_urkl"):
        spec = LossSpec.parse(name, kl_coef=kl_coef, clip_scope="none", z_old=1.7)
        table.append(Row(f"{name} (unclipped, Z_old=1.7)", spec.divergence, spec_loss(spec), True, spec.z_old))
    table.append(Row("-w A + beta k3 (GRPO's KL term)", "urkl", grpo_loss, False))
    table.append(Row("-w A + beta w k3 (corrected GRPO)", "urkl", corrected_grpo_loss, True))
    return table


def make_problems(policies: int, outcomes: int, kl_coef: float, seed: int) -> list[Problem]:
    """Return random problems, alternately with pi_ref = pi_old and with another reference."""
    generator = torch.Generator().manual_seed(seed)
    return [random_problem(generator, outcomes, kl_coef, own_reference=bool(i % 2)) for i in range(policies)]


def measure(row: Row, problems: list[Problem]) -> Result:
    """Error, bias and noise of one loss; pi_old is given the row's mass."""
    normalized, log_z = DIVERGENCES[row.divergence].normalized, math.log(row.z_old)
    scaled = [dataclasses.replace(problem, log_old=problem.log_old + log_z, z_old=row.z_old) for problem in problems]
    return compare(
        (loss_gradient(problem, row.loss, normalized), objective_gradient(problem, row.divergence))
        for problem in scaled
    )


def kl_term_bias(loss: PerSampleLoss, problems: list[Problem]) -> float:
    """Relative gradient error of the KL term of GRPO's loss, over problems with another reference."""
    off_policy = [problem for problem in problems if problem.log_ref is not problem.log_old]
    alone = [
        dataclasses.replace(problem, advantages=torch.zeros_like(problem.logits), kl_coef=1.0) for problem in off_policy
    ]
    return compare((loss_gradient(problem, loss, False), objective_gradient(problem, "urkl")) for problem in alone).bias


def coefficients(spec: LossSpec, advantage: float, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The factors of A in the loss and in the gradient, as functions of w, computed by token_loss.

    Loss: loss = -coefficient * A for differentiable losses, coefficient * A * l (l = -log pi) for REINFORCE
    ones. Gradient: -coefficient * A * grad log pi. beta must be 0.
    """
    log_prob = (w.log() - 20.0).requires_grad_()  # far enough below 0 for any w drawn
    old = torch.full_like(w, -20.0)
    loss, _ = token_loss(spec, log_prob=log_prob, old_log_prob=old, advantages=torch.full_like(w, advantage))
    (slope,) = torch.autograd.grad(loss.sum(), log_prob)
    unit = -advantage if spec.estimator == "differentiable" else -advantage * log_prob.detach()
    return loss.detach() / unit, -slope / advantage


def plot(path: Path) -> None:
    """Loss and gradient coefficients against w for A > 0 and A < 0 (the paper's Figures 2 and 3), beta = 0."""
    from matplotlib.figure import Figure

    w = torch.logspace(-1, 1.3, 2000, dtype=torch.float64)
    curves: dict[str, dict] = {
        "rpg_rf_urkl": {"label": "REINFORCE, unclipped", "color": "0.6", "linestyle": ":"},
        "rpg_rf_urkl_clip_hard": {"label": "REINFORCE, Remark F.2", "color": "tab:green", "linestyle": "-."},
        "rpg_rf_urkl_clip_dual": {"label": "REINFORCE, Eq. 4.1", "color": "tab:orange", "linestyle": "-"},
        "rpg_urkl": {"label": "differentiable, dual clip", "color": "black", "linestyle": "--", "linewidth": 1},
        "rpg_rf_urkl_clip_ppo": {
            "label": "REINFORCE, Algorithm 2",
            "color": "tab:blue",
            "linewidth": 5,
            "alpha": 0.4,
        },
    }
    bounds = (*LossSpec.parse("rpg_urkl").bounds, LossSpec.parse("rpg_urkl").clip_c)
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for column, advantage in enumerate((1.0, -1.0)):
        for name, look in curves.items():
            drawn = coefficients(LossSpec.parse(name, kl_coef=0.0), advantage, w)
            for axis, coefficient in zip(axes[:, column], drawn, strict=True):
                axis.plot(w, coefficient, **look)
        axes[0, column].set_title(rf"$A {'>' if advantage > 0 else '<'} 0$, $\beta = 0$")
        axes[1, column].set_xlabel(r"$w = \pi_\theta / \pi_{old}$")
    for row, part, limits in ((0, "loss", (-0.1, 3)), (1, "gradient", (-0.4, 12))):
        axes[row, 0].set_ylabel(f"coefficient of the {part}")
        for axis in axes[row]:
            axis.set(xscale="log", ylim=limits)
            for bound in bounds:
                axis.axvline(bound, color="0.85", linewidth=1, zorder=0)
            axis.set_xticks([0.1, *bounds], [f"{tick:g}" for tick in (0.1, *bounds)])
            axis.minorticks_off()
    axes[0, 0].legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
