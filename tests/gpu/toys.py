"""The toy task for a GPU: problem files, a Qwen2 and a Qwen3 trained on it; `python -m tests.gpu.toys` builds them."""

import subprocess
import sys
from pathlib import Path

import torch

from scripts.toy_model import FAMILIES, ToyModelSettings, build_toy_model
from tests.e2e.conftest import ROOT

DIRECTORY = ROOT / "runs" / "toy_gpu"


def model(family: str) -> Path:
    """Directory of the model of one of FAMILIES."""
    return DIRECTORY / family


def build(device: str) -> None:
    """Build what is missing, trained on device."""
    if not (DIRECTORY / "toy_test.parquet").is_file():
        command = [sys.executable, "-m", "rpg.cli", "data", "build", "toy", "--out", str(DIRECTORY)]
        subprocess.run(command, cwd=ROOT, check=True)
    for family in FAMILIES:
        if not model(family).is_dir():
            accuracy = build_toy_model(model(family), ToyModelSettings(family=family, device=device))
            print(f"figure: {family} answers {accuracy:.2f} rightly", flush=True)


if __name__ == "__main__":
    build("cuda" if torch.cuda.is_available() else "cpu")
