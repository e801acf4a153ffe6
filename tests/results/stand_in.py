#!/usr/bin/env python3
"""stand_in.py -m rpg.run NAME OVERRIDE...: writes the files of a run, without training.

Takes the place of the interpreter that launch.sh starts (`interpreter`). It composes the configuration, locks the run's
directory, resumes from its newest complete checkpoint, and writes a record, a checkpoint with manifest and a validation
per step, like the stack. Environment: STAND_IN_SECONDS per step; STAND_IN_FAILS names a run that ends with exit code 7
after its first step.
"""

import json
import os
import sys
import time
from pathlib import Path

import yaml

from rpg.config.compose import compose
from rpg.files.integrity import newest_complete
from rpg.files.lock import RUN, take
from rpg.run import signals
from tests.builders.checkpoints import write_complete


def interpreter(path: Path) -> Path:
    """Write an executable that runs this file with its arguments."""
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    path.chmod(0o755)
    return path


def main() -> int:
    """Make the run and return its exit code."""
    signals.end_at_once()  # launch.sh blocked them
    script, *overrides = sys.argv[3:]
    config = compose(script, overrides)[0].config
    trainer = config["trainer"]
    directory, name = Path(trainer["default_local_dir"]), trainer["experiment_name"]
    directory.mkdir(parents=True, exist_ok=True)
    _lock = take(directory / RUN)
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    newest = newest_complete(directory).newest
    first = int(newest.directory.name.removeprefix("global_step_")) if newest else 0
    metrics = directory / "metrics.jsonl"
    kept = [line for line in metrics.read_text().splitlines() if json.loads(line)["step"] <= first] if newest else []
    metrics.write_text("".join(f"{line}\n" for line in kept))
    fails = name == os.environ.get("STAND_IN_FAILS")
    with open(directory / "history.jsonl", "a") as history:
        history.write(json.dumps({"started": "now", "after_step": first, "changed": {}}) + "\n")
    accuracy = f"val-core/toy_sum/acc/mean@{config['actor_rollout_ref']['rollout']['val_kwargs']['n']}"
    for step in range(first, trainer["total_training_steps"] + 1):
        if step > first:
            time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
            write_complete(directory, step, ranks=1)
        elif not trainer["val_before_train"] or (kept and json.loads(kept[-1])["step"] == first):
            continue
        data = {accuracy: 0.1 * step + 0.01 * config["data"]["seed"], "critic/score/mean": float(step)}
        with open(metrics, "a") as stream:
            stream.write(json.dumps({"step": step, "data": data}) + "\n")
        if step and fails:
            print("broken on purpose", file=sys.stderr)
            return 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
