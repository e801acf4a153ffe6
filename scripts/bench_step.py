"""Seconds of a training step by phase, on the CPU profile: variants in turn, on the same machine.

    python scripts/bench_step.py                           # sync, pi_old=behavior, schedule=async
    python scripts/bench_step.py plain= four="data.train_batch_size=128 actor_rollout_ref.actor.ppo_mini_batch_size=64"
    python scripts/bench_step.py dapo=run_dapo_cpu.sh rpg=run_rpg_cpu_urkl1e-4.sh

A variant is NAME=[SCRIPT] OVERRIDES, the script one of recipe/rpg/cpu. Every round starts each variant anew; medians
and quartiles are over all rounds' steps but the first two of each start. Toy model and data: `rpg demo --prepare-only`.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "recipe/rpg/cpu"
SCRIPT = "run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
VARIANTS = ("sync=", "behavior=pi_old=behavior", "async=schedule=async pi_old=behavior")
# verl's timers, in the order of a step; what is between them is the rest
PHASES = ("gen", "reward", "old_log_prob", "ref", "adv", "update_actor", "update_weights")
PEAK = "actor/perf/max_memory_allocated_gb"  # GiB; on a CPU the actor process's largest resident set
WARM = 2


def main() -> None:
    """Run what the command line asks for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", default=VARIANTS, metavar="NAME=OVERRIDES")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    variants = dict(text.split("=", 1) for text in args.variants)
    if args.steps <= WARM:
        parser.error(f"--steps must be more than {WARM}, which are not counted")
    steps: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for number in range(args.rounds):
        for name, overrides in variants.items():
            print(f"round {number + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            steps[name] += measured(shlex.split(overrides), args.steps)
    print("\n".join(table(steps)))


def measured(words: list[str], steps: int, warm: int = WARM) -> list[dict[str, float]]:
    """One start, words as of a variant; of each step that counts the timers and `rest`, in seconds, and PEAK."""
    script, overrides = (words[0], words[1:]) if words and words[0].endswith(".sh") else (SCRIPT, words)
    with tempfile.TemporaryDirectory(prefix="rpg-bench-") as directory:
        settings = [
            f"trainer.default_local_dir={directory}/run",
            f"trainer.total_training_steps={steps}",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=-1",
        ]
        command = ["bash", str(SCRIPTS / script), *settings, *overrides]
        if code := subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"bench_step: {shlex.join(command)} ended with exit code {code}")
        lines = (Path(directory) / "run/metrics.jsonl").read_text().splitlines()
    found = []
    for data in [json.loads(line)["data"] for line in lines][warm:]:
        step = {phase: data.get(f"timing_s/{phase}", 0.0) for phase in PHASES}
        rest = data["timing_s/step"] - sum(step.values())
        found.append({**step, "rest": rest, "step": data["timing_s/step"], PEAK: data[PEAK]})
    return found


def table(steps: dict[str, list[dict[str, float]]]) -> list[str]:
    """Markdown: a row a phase, a column a variant: median (quartiles); whole steps relative to the first."""
    rows = ["| phase, s | " + " | ".join(steps) + " |", "|---|" + "--:|" * len(steps)]
    for phase in (*PHASES, "rest", "step"):
        columns = [[step[phase] for step in made] for made in steps.values()]
        if any(any(column) for column in columns):
            rows.append(f"| {phase} | " + " | ".join(map(spread, columns)) + " |")
    for name in ("median", "mean"):  # asynchronous steps alternate between those that wait for rollouts and others
        middle = getattr(statistics, name)
        totals = [middle(step["step"] for step in made) for made in steps.values()]
        rows.append(f"| {name}, ratio | " + " | ".join(f"{total / totals[0]:.2f}" for total in totals) + " |")
    peaks = [max(step[PEAK] for step in made) for made in steps.values()]
    rows.append("| actor's peak, GiB | " + " | ".join(f"{peak:.2f}" for peak in peaks) + " |")
    return rows


def spread(values: list[float], digits: int = 2) -> str:
    """Median and quartiles."""
    low, middle, high = (f"{value:.{digits}f}" for value in statistics.quantiles(values, n=4))
    return f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main()
