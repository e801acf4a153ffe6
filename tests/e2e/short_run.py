"""Start a launch script of the CPU profile on the toy task, and read what the run leaves behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
TOY = ROOT / "runs" / "toy"
SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
TIME_LIMIT = 400  # seconds; a run of three steps takes 75 on two free cores


def command(directory: Path, steps: int, *overrides: str) -> list[str]:
    """steps training steps into directory, no validation, a checkpoint only where overrides ask for one."""
    return [
        "bash",
        str(SCRIPT),
        f"trainer.total_training_steps={steps}",
        f"trainer.default_local_dir={directory}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "rpg.console=full",
        *overrides,
    ]


def environment(**extra: str) -> dict[str, str]:
    """As a user's, without a cluster."""
    env = {**os.environ, "PYTHON": sys.executable, **extra}
    env.pop("RAY_ADDRESS", None)
    return env


def run(directory: Path, steps: int, *overrides: str, **env: str) -> list[dict]:
    """Run to the end; returns the metrics, one dict a step. Fails with the end of the log."""
    log = directory.with_suffix(".log")
    with open(log, "wb") as stream:
        ended = subprocess.run(
            command(directory, steps, *overrides),
            env=environment(**env),
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=TIME_LIMIT,
        )
    assert ended.returncode == 0, log.read_text(errors="replace")[-4000:]
    return metrics(directory)


def metrics(directory: Path) -> list[dict]:
    """metrics.jsonl as dicts with the key "step"."""
    records = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [{"step": record["step"], **record["data"]} for record in records]


def actor(directory: Path, step: int) -> dict[str, torch.Tensor]:
    """The actor's weights in the checkpoint of step, of a run on one rank."""
    path = directory / f"global_step_{step}" / "actor" / "model_world_size_1_rank_0.pt"
    return {name: tensor.to_local() for name, tensor in torch.load(path, weights_only=False).items()}


def optimizer(directory: Path, step: int) -> dict:
    """The optimizer's state dict in the checkpoint of step."""
    return torch.load(directory / f"global_step_{step}" / "actor" / "optim_world_size_1_rank_0.pt", weights_only=False)


def reference(directory: Path, step: int) -> dict:
    """The reference in the checkpoint of step: its shards and its state."""
    return torch.load(directory / f"global_step_{step}" / "reference" / "world_size_1_rank_0.pt", weights_only=True)
