"""Cost of a reference model on the real stack: mode `fixed` beside mode `old`, on the toy task.

    python scripts/bench_reference.py        # six minutes on two idle cores

Starts the launch script twice in each mode, in turn. A step's time is verl's own, less generation; the memory is the
peak of the process that trains (VmHWM), which Ray titles WorkerDict.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
MODES = ("old", "fixed")
MARK = "RPG_BENCH_RUN"  # inherited by every process of a run, so that others on the machine are not counted
TIME_LIMIT = 600  # seconds a run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8, help="training steps a run; the first is not counted")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    reference: dict[str, list[float]] = {mode: [] for mode in MODES}
    peaks: dict[str, list[float]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            for mode in MODES:
                directory = Path(folder) / f"{mode}{number}"
                peaks[mode].append(run(directory, mode, args.steps))
                records = [json.loads(line)["data"] for line in (directory / "metrics.jsonl").read_text().splitlines()]
                seconds[mode] += [r["timing_s/step"] - r["timing_s/gen"] for r in records[1:]]
                reference[mode] += [r.get("timing_s/ref", 0.0) for r in records[1:]]
                said = f"run {number + 1} of {args.rounds}, {mode}: peak {peaks[mode][-1]:.0f} MB"
                print(said, file=sys.stderr, flush=True)
    print(f"{args.rounds} runs of {args.steps} steps in each mode; medians over steps, the larger peak\n")
    print(f"{'':<44} {'old':>9} {'fixed':>9} {'fixed/old':>10}")
    for label, figures, of in (
        ("step without generation, s", seconds, statistics.median),
        ("  of which the reference's log-probs, s", reference, statistics.median),
        ("peak memory of the process that trains, MB", peaks, max),
    ):
        old, fixed = (of(figures[mode]) for mode in MODES)
        print(f"{label:<44} {old:9.3f} {fixed:9.3f} {f'{fixed / old:.2f}' if old else '-':>10}")


def run(directory: Path, mode: str, steps: int) -> float:
    """Start the script, wait for its end; returns the peak memory of the training process in MB."""
    command = [
        "bash",
        str(SCRIPT),
        f"reference={mode}",
        f"trainer.total_training_steps={steps}",
        f"trainer.default_local_dir={directory}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    ]
    directory.mkdir()
    peak, until = 0.0, time.monotonic() + TIME_LIMIT
    with open(directory / "terminal.txt", "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHON": sys.executable, MARK: directory.name},
        )
        while process.poll() is None:
            if time.monotonic() > until:
                process.terminate()
                process.wait()
                raise TimeoutError(f"mode {mode}: no end after {TIME_LIMIT} s")
            peak = max(peak, *map(peak_megabytes, workers(directory.name)), 0.0)
            time.sleep(0.5)
    if process.returncode:
        raise RuntimeError(
            f"mode {mode}: exit code {process.returncode}\n{(directory / 'terminal.txt').read_text()[-3000:]}"
        )
    return peak


def workers(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and "WorkerDict" in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def peak_megabytes(process: psutil.Process) -> float:
    """VmHWM; 0 where the process has just ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except FileNotFoundError:
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 1024 if "VmHWM:" in status else 0.0


if __name__ == "__main__":
    main()
