#!/usr/bin/env python3
"""stand_in.py CONFIG OVERRIDE...: writes the files of a launch script's run, without training.

CONFIG is a file with the configuration that the overrides change. It locks the run's directory, resumes from its newest
complete checkpoint, and writes a record, a checkpoint with manifest and a validation per step, like the stack.
Environment: STAND_IN_SECONDS per step; STAND_IN_FAILS names a run that ends with exit code 7 after its first step.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rpg.checks.check import Run
from rpg.files import manifest
from rpg.files.integrity import newest_complete
from rpg.files.lock import RUN, take
from rpg.launching.scripts import Script
from rpg.results.run_settings import put


def save(directory: Path, step: int) -> None:
    """Write a step's checkpoint."""
    checkpoint = directory / f"global_step_{step}"
    manifest.begin(checkpoint)
    (checkpoint / "actor").mkdir()
    (checkpoint / "actor" / "model_world_size_1_rank_0.pt").write_bytes(b"weights")
    (checkpoint / "data.pt").write_bytes(b"data")
    manifest.write(checkpoint)
    (directory / "latest_checkpointed_iteration.txt").write_text(str(step))


def settings(file: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a file, changed by overrides."""
    config = json.loads(file.read_text())
    for override in overrides:
        key, _, value = override.partition("=")
        put(config, key, yaml.safe_load(value))
    return config


def of_script(script: Script, overrides: Sequence[str]) -> Run:
    """Replace rpg.launching.compose.of_script: return the configuration beside the stand-in's script."""
    return Run(settings(script.path.with_name(f"{script.name}.json"), [*script.overrides, *overrides]))


def main() -> int:
    """Make the run and return its exit code."""
    config = settings(Path(sys.argv[1]), sys.argv[2:])
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
            save(directory, step)
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
