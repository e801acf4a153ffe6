"""`rpg verify`: every loss against the exact gradient of its objective, over random enumerated policies."""

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from rpg.arguments import at_least
from rpg.objectives import LossSpec
from rpg.objectives.losses import DIVERGENCES
from rpg.objectives.proofs import exact, on_device
from rpg.objectives.proofs.responses import DISTANCE, MOVES, measure_scopes

TOLERANCE = 1e-10  # largest component of |gradient of the expected loss + grad J|; rounding is below 1e-15
OUTCOMES, Z_OLD = 12, 1.7
# row of the table, loss, fields of LossSpec, whether the gradient must be exact
KINDS: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    ("rpg_<d>, clip_scope=none", "rpg_{}", {"clip_scope": "none"}, True),
    ("rpg_<d>, clip_scope=reward", "rpg_{}", {"clip_scope": "reward"}, False),
    ("rpg_<d>, clip_scope=regularized", "rpg_{}", {"clip_scope": "regularized"}, False),
    ("rpg_rf_<d>", "rpg_rf_{}", {}, True),
    ("rpg_rf_<d>_clip_dual, Eq. 4.1", "rpg_rf_{}_clip_dual", {}, False),
    ("rpg_rf_<d>_clip_hard, Remark F.2", "rpg_rf_{}_clip_hard", {}, False),
    ("rpg_rf_<d>_clip_ppo, Algorithm 2", "rpg_rf_{}_clip_ppo", {}, False),
    (f"rpg_<d>, unclipped, Z_old={Z_OLD}", "rpg_{}", {"clip_scope": "none", "z_old": Z_OLD}, True),
    (f"rpg_rf_<d>, Z_old={Z_OLD}", "rpg_rf_{}", {"z_old": Z_OLD}, True),
)
TERMS = (("GRPO's KL term alone, k3", exact.grpo_loss, False), ("the same, w k3", exact.corrected_grpo_loss, True))


def cell(must: bool, result: exact.Result) -> str:
    """A cell of the table: bias and mark, = exact as required, ~ biased as expected, ! neither; NaN is neither."""
    as_it_must = result.error <= TOLERANCE if must else result.error > TOLERANCE
    return f"{result.bias:{'.0e' if result.bias < 1e-3 else '.2f'}} {'!' if not as_it_must else '=' if must else '~'}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the subcommand."""
    add = parser.add_argument
    add("--policies", metavar="N", type=at_least(2, 100_000), default=200, help="policies per loss (default: 200)")
    add("--kl-coef", metavar="BETA", type=_positive, default=0.1, help="large, so that a wrong KL shows (default: 0.1)")
    add("--seed", metavar="N", type=int, default=0, help="seed of the random policies (default: 0)")
    about = "compare the losses on this device, plain and compiled, with float64 on the CPU instead; takes minutes"
    add("--device", choices=("cpu", "cuda"), help=about)


def _positive(text: str) -> float:
    if not 0 < (value := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not positive and finite")
    return value


def run(args: argparse.Namespace) -> int:
    """Print the tables and a verdict; 1 if a gradient is not exact or not biased as it must be, else 0."""
    if args.device:
        return on_device.run(args.device)
    generator = torch.Generator().manual_seed(args.seed)
    problems = [  # every second one with a reference other than pi_old
        exact.random_problem(generator, OUTCOMES, args.kl_coef, own_reference=bool(i % 2)) for i in range(args.policies)
    ]
    print(
        f"{args.policies} random policies, about {1 + args.policies // 60} s on an idle core\n"
        "|gradient of the expected loss + grad J| / |grad J|, mean over policies\n"
        f"= exact as required (below {TOLERANCE:g})   ~ biased as expected   ! neither"
    )
    marks = _print(f"loss, beta = {args.kl_coef:g}, <d>:", list(DIVERGENCES), of_losses(problems))
    title = f"KL of responses, unclipped, logits\nof pi_ref moved by {DISTANCE:g}, pi_theta by"
    marks += _print(title, list(MOVES), of_responses(max(2, args.policies // 16), args.seed))
    wrong = marks.count("!")
    verdict = f", {wrong} neither: FAILED" if wrong else ": passed"
    print(f"\n{marks.count('=')} exact as required, {marks.count('~')} biased as expected{verdict}")
    return 1 if wrong else 0


def _print(title: str, columns: list, rows: Iterator[tuple[str, dict]]) -> str:
    """Print a table, each row when it is measured; return the marks of its cells."""
    *above, title = title.split("\n")
    print("", *above, f"{title:<34}" + "".join(f"{column:>11}" for column in columns), sep="\n")
    marks = ""
    for label, cells in rows:
        print(f"{label:<34}" + "".join(f"{cells.get(column, ''):>11}" for column in columns), flush=True)
        marks += "".join(text[-1] for text in cells.values())
    return marks


def of_losses(problems: list[exact.Problem]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of KINDS, by divergence, then GRPO's KL term without a reward and with another reference."""
    for label, name, fields, must in KINDS:
        z_old, cells = fields.get("z_old", 1.0), {}
        scaled = [replace(problem, log_old=problem.log_old + math.log(z_old), z_old=z_old) for problem in problems]
        for d in (d for d in DIVERGENCES if z_old == 1 or not DIVERGENCES[d].normalized):
            spec = LossSpec.parse(name.format(d), kl_coef=problems[0].kl_coef, **fields)
            cells[d] = cell(must, compare(d, exact.spec_loss(spec), scaled))
        yield label, cells
    alone = [replace(p, advantages=torch.zeros_like(p.logits), kl_coef=1.0) for p in problems[1::2]]
    for label, loss, must in TERMS:
        yield label, {"urkl": cell(must, compare("urkl", loss, alone))}


def compare(divergence: str, loss: exact.PerSampleLoss, problems: list[exact.Problem]) -> exact.Result:
    """Compare the gradient of a loss with grad J."""
    normalized = DIVERGENCES[divergence].normalized
    return exact.compare(
        (exact.loss_gradient(problem, loss, normalized), exact.objective_gradient(problem, divergence))
        for problem in problems
    )


def of_responses(number: int, seed: int) -> Iterator[tuple[str, dict[float, str]]]:
    """Yield a row a divergence and kl_scope, by move of pi_theta."""
    for divergence, scope, results in measure_scopes(number, seed):
        yield f"{divergence}, kl_scope={scope}", {move: cell(*result) for move, result in results.items()}
