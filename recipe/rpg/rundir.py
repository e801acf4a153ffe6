"""The files of a run beside verl's checkpoints: config.yaml, environment.json, metrics.jsonl."""

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipe.rpg.names import JUDGE

PACKAGES = [
    "rpg-verl",
    "verl",
    "torch",
    "vllm",
    "ray",
    "transformers",
    "flash-attn",
    "tensordict",
    "TransferQueue",
    "schedulefree",
    "pandas",
    "pyarrow",
    "hydra-core",
    "wandb",
    "math-verify",
    "numpy",
]


@contextlib.contextmanager
def run_directory(config: DictConfig) -> Iterator[Path]:
    """The run's directory with config.yaml and environment.json in it.

    verl opens metrics.jsonl anew at every start. So that a resumed run loses nothing, what is there already waits
    in metrics.previous.jsonl meanwhile, and at the end metrics.jsonl is the whole again. A run that is told not to
    resume puts the earlier file aside under its date.
    """
    directory = Path(config.trainer.default_local_dir)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.yaml").write_text(OmegaConf.to_yaml(config))
    (directory / "environment.json").write_text(json.dumps(environment(config), indent=2) + "\n")
    metrics, previous = directory / "metrics.jsonl", directory / "metrics.previous.jsonl"
    if config.trainer.resume_mode == "disable":
        for old in (previous, metrics):
            if old.is_file():
                when = time.strftime("%Y%m%d-%H%M%S", time.localtime(old.stat().st_mtime))
                old.rename(directory / f"{old.stem}.until-{when}.jsonl")
    elif metrics.is_file():
        _append(metrics, previous)
        metrics.unlink()
    try:
        yield directory
    finally:
        if previous.is_file():
            if metrics.is_file():
                _append(metrics, previous)
            previous.replace(metrics)


def _append(source: Path, target: Path) -> None:
    """Append source's lines to target; a last line that a killed run left half written is dropped."""
    with open(source, "rb") as reading, open(target, "ab") as writing:
        for line in reading:
            if line.endswith(b"\n"):
                writing.write(line)


def environment(config: DictConfig) -> dict[str, Any]:
    """Versions, git commit, devices, and which judge: what one has to know to repeat a run.

    The judge is null where the run has a reward function of somebody else's.
    """
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host_cpus": os.cpu_count(),
        "devices": _devices(),
        "judge": OmegaConf.select(config, JUDGE),
        "ray_address": os.environ.get("RAY_ADDRESS", "local"),
        "git_commit": _git_commit(),
        "versions": versions,
    }


def _devices() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] or ["cpu"]


def _git_commit() -> str | None:
    """Commit of the checkout that this file is in, with "+" where it has changes; None outside a checkout."""
    if shutil.which("git") is None:
        return None
    git = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return None
    changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changes.stdout else "")
