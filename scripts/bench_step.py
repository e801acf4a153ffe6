"""Seconds of a training step by phase, on the CPU profile: variants in turn, on the same machine.

    python scripts/bench_step.py
    python scripts/bench_step.py dapo=run_dapo_cpu.sh rpg=run_rpg_cpu_urkl1e-4.sh "four=data.train_batch_size=128"

A variant is NAME=[SCRIPT] OVERRIDES, the script one of recipe/rpg/cpu. Medians and quartiles are over all steps of its
start but the first two. Toy model and data: `rpg demo --prepare-only`.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "recipe/rpg/cpu"
SCRIPT = "run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
VARIANTS = ("sync=", "behavior=pi_old=behavior", "grpo=run_grpo_cpu.sh", "fixed=reference=fixed")
PHASES = ("gen", "old_log_prob", "ref", "update_actor", "step")  # verl's timers
WARM = 2


def main() -> None:
    """Run what the command line asks for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", default=VARIANTS, metavar="NAME=OVERRIDES")
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    made = {}
    for text in args.variants:
        name, _, overrides = text.partition("=")
        print(name, file=sys.stderr, flush=True)
        made[name] = measured(shlex.split(overrides), args.steps)
    print(table(made))


def measured(words: list[str], steps: int) -> pandas.DataFrame:
    """The phases of each step that counts, in seconds; words as of a variant."""
    script, overrides = (words[0], words[1:]) if words and words[0].endswith(".sh") else (SCRIPT, words)
    with tempfile.TemporaryDirectory(prefix="rpg-bench-") as directory:
        settings = [
            f"trainer.default_local_dir={directory}/run",
            f"trainer.total_training_steps={steps}",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=-1",
        ]
        subprocess.run(["bash", SCRIPTS / script, *settings, *overrides], stdout=subprocess.DEVNULL, check=True)
        data = pandas.read_json(f"{directory}/run/metrics.jsonl", lines=True)["data"]
    timers = pandas.DataFrame(data.to_list()).reindex(columns=[f"timing_s/{phase}" for phase in PHASES], fill_value=0.0)
    return timers.set_axis(PHASES, axis=1)[WARM:]


def table(made: dict[str, pandas.DataFrame]) -> str:
    """Markdown: a row a phase, a column a variant: median (quartiles); whole steps relative to the first."""
    rows = [["phase, s", *made], ["---", *("--:" for _ in made)]]
    rows += [[phase, *(spread(steps[phase]) for steps in made.values())] for phase in PHASES]
    medians = [steps["step"].median() for steps in made.values()]
    rows.append(["ratio of medians", *(f"{median / medians[0]:.2f}" for median in medians)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def spread(values: pandas.Series) -> str:
    """Median and quartiles."""
    low, middle, high = values.quantile([0.25, 0.5, 0.75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
