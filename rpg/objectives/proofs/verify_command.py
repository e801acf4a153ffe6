"""`rpg verify`: every loss against the exact gradient of its objective, over random enumerated policies."""

import argparse
import json
import math
from pathlib import Path

from rpg.arguments import at_least
from rpg.objectives.proofs.exact import corrected_grpo_loss, grpo_loss
from rpg.objectives.proofs.on_device import print_device
from rpg.objectives.proofs.responses import measure_scopes
from rpg.objectives.proofs.verify import (
    TOLERANCE,
    kl_term_bias,
    make_problems,
    measure,
    plot,
    print_scopes,
    rows,
    scope_label,
)

PICTURES = (".png", ".svg", ".pdf")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the subcommand."""
    parser.add_argument("--policies", type=at_least(2, 100_000), default=200, help="random policies per loss (200)")
    parser.add_argument("--outcomes", type=at_least(2, 1000), default=12, help="outcomes of each policy (12)")
    parser.add_argument("--kl-coef", type=_finite, default=0.1, help="beta; large, so that the KL shows (0.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--device", choices=("cpu", "cuda"),
        help="instead: losses on this device, plain and compiled, against float64 on the CPU (minutes)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="error, bias and std of every loss and KL scope as JSON")
    parser.add_argument("--plot", type=_picture, metavar="PATH", help="draw loss coefficient against w to PATH")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise argparse.ArgumentTypeError(f"{text} is not finite")
    return value


def _picture(text: str) -> Path:
    if Path(text).suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"{text}: name a {', '.join(PICTURES)} file")
    return Path(text)


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 if a loss that must be exact is off by more than TOLERANCE, else 0."""
    if args.plot:
        plot(args.plot)
    if args.device:
        return print_device(args.device, args.json)
    problems = make_problems(args.policies, args.outcomes, args.kl_coef, args.seed)
    if not args.json:
        print(
            f"{args.policies} random policies over {args.outcomes} outcomes, float64, beta = {args.kl_coef:g};\n"
            "half with pi_ref = pi_old, half with another reference\n"
            "error: largest component of |gradient of the expected loss + grad J|\n"
            "bias: mean of |error| / |grad J|   std: noise of one sample\n"
        )
        print(f"{'loss':<35}{'objective':<10}{'must be':<7} {'error':>8} {'bias':>8} {'std':>7}", flush=True)
    measured = []
    for row in rows(args.kl_coef):
        result = measure(row, problems)
        measured.append((row, result))
        if not args.json:
            print(
                f"{row.label:<35}{row.divergence:<10}{'exact' if row.exact else 'biased':<7} "
                f"{result.error:8.1e} {result.bias:8.1e} {result.std:7.3f}",
                flush=True,
            )
    failures = [row.label for row, result in measured if row.fails(result)]
    responses = max(2, args.policies // 16)
    scopes = measure_scopes(responses, args.seed)
    failures += [scope_label(row) for row in scopes if row.exact and not row.error <= TOLERANCE]
    if args.json:
        losses = [
            {"loss": row.label, "objective": row.divergence, "exact": row.exact, **result._asdict()}
            for row, result in measured
        ]
        kl_scopes = [row._asdict() for row in scopes]
        print(json.dumps({"losses": losses, "kl_scopes": kl_scopes, "failed": failures}, indent=2))
        return 1 if failures else 0
    uncorrected, corrected = (kl_term_bias(loss, problems) for loss in (grpo_loss, corrected_grpo_loss))
    print(
        "\nThe KL term alone, off-policy, on average: GRPO's k3 without importance weight\n"
        f"misses the gradient of UKL by {uncorrected:.1%}, w * k3 by {corrected:.1e}."
    )
    print_scopes(scopes, responses)
    if args.plot:
        print(f"Loss coefficients drawn to {args.plot}")
    if failures:
        print(f"\nFAILED (error above {TOLERANCE:g}): {', '.join(failures)}")
    return 1 if failures else 0
