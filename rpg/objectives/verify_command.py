"""`rpg verify`: every loss against the exact gradient of its objective, over random enumerated policies."""

import argparse
import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from rpg.objectives import LOSS_NAMES, LossSpec, token_loss
from rpg.objectives.exact import (
    PerSampleLoss,
    Problem,
    corrected_grpo_loss,
    grpo_loss,
    loss_gradient,
    objective_gradient,
    random_problem,
    spec_loss,
)
from rpg.objectives.losses import DIVERGENCES
from rpg.objectives.staleness import CHOICES, STALENESS, mean_kl, measure_choice, stale_problems

TOLERANCE = 1e-10


@dataclass(frozen=True)
class Row:
    """One line of the table: a loss, its objective's divergence, and whether the loss must be exact."""

    label: str
    divergence: str
    loss: PerSampleLoss
    exact: bool
    z_old: float = 1.0


@dataclass(frozen=True)
class Result:
    """Over all policies: largest component of the gradient error; means of |error| / |grad J| and of std."""

    error: float
    bias: float
    std: float


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the subcommand."""
    parser.add_argument("--policies", type=int, default=200, help="random policies per loss (default 200)")
    parser.add_argument("--outcomes", type=int, default=12, help="outcomes of each policy (default 12)")
    parser.add_argument("--kl-coef", type=float, default=0.1, help="beta; large, so that the KL shows (0.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="error, bias and std of every loss as JSON")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw loss coefficient against w to PATH")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 if a loss that must be exact is off by more than TOLERANCE, else 0."""
    problems = make_problems(args.policies, args.outcomes, args.kl_coef, args.seed)
    results = {row.label: measure(row, problems) for row in rows(args.kl_coef)}
    if args.json:
        wrong = [row.label for row in rows(args.kl_coef) if row.exact and not results[row.label].error <= TOLERANCE]
        losses = [
            {"loss": row.label, "objective": row.divergence, "exact": row.exact, **vars(results[row.label])}
            for row in rows(args.kl_coef)
        ]
        print(json.dumps({"losses": losses, "failed": wrong}, indent=2))
        return 1 if wrong else 0
    print(
        f"{args.policies} random policies over {args.outcomes} outcomes, float64, beta = {args.kl_coef:g}; half with "
        "pi_ref = pi_old, half with another reference\n"
        "error: largest component of |gradient of the expected loss + grad J|   "
        "bias: mean of |error| / |grad J|   std: noise of one sample\n"
    )
    print(f"{'loss':<44} {'objective':<9} {'must be':<8} {'error':>9} {'bias':>9} {'std':>7}")
    failures = []
    for row in rows(args.kl_coef):
        result = results[row.label]
        print(
            f"{row.label:<44} {row.divergence:<9} {'exact' if row.exact else 'biased':<8} "
            f"{result.error:9.1e} {result.bias:9.1e} {result.std:7.3f}"
        )
        if row.exact and not result.error <= TOLERANCE:  # NaN fails as well
            failures.append(row.label)
    uncorrected, corrected = kl_term_bias(problems)
    print(
        f"\nThe KL term alone, off-policy: GRPO's k3 without importance weight misses the gradient of UKL by "
        f"{uncorrected:.1%} on average, w * k3 by {corrected:.1e}."
    )
    failures += print_choices_of_pi_old(max(2, args.policies // 4), args.outcomes, args.kl_coef, args.seed)
    if args.plot:
        plot(args.plot)
        print(f"Loss coefficients drawn to {args.plot}")
    if failures:
        print(f"\nFAILED (error above {TOLERANCE:g}): {', '.join(failures)}")
    return 1 if failures else 0


def print_choices_of_pi_old(policies: int, outcomes: int, kl_coef: float, seed: int) -> list[str]:
    """Print error, bias and noise of each choice of pi_old with older samples; returns the failed choices."""
    print(
        f"\nSamples of an older policy: behaviour (samples), anchor (the batch starts from it), present; {policies} of "
        "each, under the three choices of pi_old\n"
        "staleness: std of the logits between behaviour and anchor   error, bias, std: of the eight unclipped losses\n"
        "clip bias, silenced: of rpg_rf_urkl_clip_ppo, and the share of samples that its clip leaves no gradient\n"
    )
    print(
        f"{'staleness':>9} {'KL':>6}  {'pi_old':<23} {'must be':<8} {'error':>9} {'bias':>9} {'std':>7} "
        f"{'clip bias':>9} {'silenced':>8}"
    )
    failures = []
    for staleness in STALENESS:
        problems = stale_problems(policies, outcomes, kl_coef, seed, staleness)
        distance = mean_kl(problems)
        for name, (_, _, promised) in CHOICES.items():
            exact = promised or staleness == 0.0  # then behaviour and anchor are one policy
            result = measure_choice(name, problems)
            print(
                f"{staleness:9g} {distance:6.3f}  {name:<23} {'exact' if exact else 'biased':<8} {result.error:9.1e} "
                f"{result.bias:9.1e} {result.std:7.3f} {result.clip_bias:9.1%} {result.silenced:8.1%}"
            )
            if exact and not result.error <= TOLERANCE:
                failures.append(f"pi_old={name} at staleness {staleness:g}")
    return failures


def rows(kl_coef: float) -> list[Row]:
    """The losses of the table: exact ones, clipped ones, and GRPO's KL term without and with its weight."""
    table = []
    for name, (divergence, estimator, clip) in LOSS_NAMES.items():
        scopes = ("none", "reward", "regularized") if estimator == "differentiable" else ("reward",)
        for scope in scopes:
            spec = LossSpec.parse(name, kl_coef=kl_coef, clip_scope=scope)
            label = f"{name} (clip_scope={scope})" if estimator == "differentiable" else name
            table.append(Row(label, divergence, spec_loss(spec), scope == "none" or clip == "none"))
    for name in ("rpg_ufkl", "rpg_urkl", "rpg_rf_ufkl", "rpg_rf_urkl"):
        spec = LossSpec.parse(name, kl_coef=kl_coef, clip_scope="none", z_old=1.7)
        table.append(Row(f"{name} (unclipped, Z_old=1.7)", spec.divergence, spec_loss(spec), True, spec.z_old))
    table.append(Row("-w A + beta k3 (GRPO's KL term)", "urkl", grpo_loss, False))
    table.append(Row("-w A + beta w k3 (corrected GRPO)", "urkl", corrected_grpo_loss, True))
    return table


def make_problems(policies: int, outcomes: int, kl_coef: float, seed: int) -> list[Problem]:
    """Random problems, alternately with pi_ref = pi_old and with a reference of its own."""
    generator = torch.Generator().manual_seed(seed)
    kinds = ("old", "other")
    return [random_problem(generator, outcomes, kl_coef=kl_coef, reference=kinds[i % 2]) for i in range(policies)]


def measure(row: Row, problems: list[Problem]) -> Result:
    """Error, bias and noise of one loss."""
    errors, biases, noises = [], [], []
    for problem in problems:
        if row.z_old != 1.0:  # give pi_old that mass
            log_old = problem.log_old + math.log(row.z_old)
            problem = dataclasses.replace(problem, log_old=log_old, z_old=row.z_old)
        estimate = loss_gradient(problem, row.loss, DIVERGENCES[row.divergence].normalized)
        gradient = objective_gradient(problem, row.divergence)
        difference = estimate.mean + gradient
        errors.append(difference.abs().max())
        biases.append(difference.norm() / gradient.norm())
        noises.append(torch.tensor(estimate.std))
    return Result(torch.stack(errors).max().item(), _mean(biases), _mean(noises))


def kl_term_bias(problems: list[Problem]) -> tuple[float, float]:
    """Relative gradient error of GRPO's KL term as it is and corrected, over problems with another reference."""

    def kl_only(loss: PerSampleLoss, problem: Problem) -> torch.Tensor:
        alone = dataclasses.replace(problem, advantages=torch.zeros_like(problem.logits), kl_coef=1.0)
        gradient = objective_gradient(alone, "urkl")
        return (loss_gradient(alone, loss, False).mean + gradient).norm() / gradient.norm()

    off_policy = [problem for problem in problems if problem.log_ref is not problem.log_old]
    return (
        _mean([kl_only(grpo_loss, problem) for problem in off_policy]),
        _mean([kl_only(corrected_grpo_loss, problem) for problem in off_policy]),
    )


def _mean(values: list[torch.Tensor]) -> float:
    return torch.stack(values).double().mean().item()


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


def plot(path: Path, clip_low: float = 0.2, clip_high: float = 0.28, clip_c: float = 10.0) -> None:
    """Loss and gradient coefficients against w for A > 0 and A < 0 (the paper's Figures 2 and 3), beta = 0."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    w = torch.logspace(-1, 1.3, 2000, dtype=torch.float64)
    curves: list[tuple[str, str, dict]] = [
        ("rpg_rf_urkl", "REINFORCE, unclipped", {"color": "0.6", "linestyle": ":"}),
        ("rpg_rf_urkl_clip_hard", "REINFORCE, hard clip", {"color": "tab:green", "linestyle": "-."}),
        ("rpg_urkl", "differentiable, dual clip", {"color": "black", "linestyle": "--", "linewidth": 1}),
        (
            "rpg_rf_urkl_clip_ppo",
            "REINFORCE, RPG-Style Clip",
            {"color": "tab:blue", "linestyle": "-", "linewidth": 5, "alpha": 0.4},
        ),
    ]
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True, constrained_layout=True)
    for column, advantage in enumerate((1.0, -1.0)):
        for name, label, style in curves:
            spec = LossSpec.parse(name, kl_coef=0.0, clip_low=clip_low, clip_high=clip_high, clip_c=clip_c)
            for row, values in enumerate(coefficients(spec, advantage, w)):
                axes[row, column].plot(w, values, label=label, **style)
        axes[0, column].set_title(rf"$A {'>' if advantage > 0 else '<'} 0$, $\beta = 0$")
        axes[1, column].set_xlabel(r"$w = \pi_\theta / \pi_{old}$")
    for row, label in enumerate(("coefficient of the loss", "coefficient of the gradient")):
        axes[row, 0].set_ylabel(label)
        for axis in axes[row]:
            axis.set(xscale="log", ylim=(-0.1, 3) if axis in axes[:, 0] else (-0.4, 12))
            _mark_bounds(axis, (1 - clip_low, 1 + clip_high, clip_c))
    axes[0, 0].legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _mark_bounds(axis, bounds: tuple[float, ...]) -> None:
    for value in bounds:
        axis.axvline(value, color="0.85", linewidth=1, zorder=0)
    axis.set_xticks([0.1, *bounds], ["0.1", *(f"{value:g}" for value in bounds)])
    axis.minorticks_off()
