"""README, "Reproduce the paper", line by line in a fresh clone and a bare shell, up to the device.

Without an active environment and .venv. The hub is replaced by local files in its layout. Without GPUs the run is
rejected for this reason only, and `rpg table` gets a made-up run directory.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.published_files import FLAT, dapo_problem, dapo_row, write_rows

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "recipe/rpg/7b/run_rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"

pytestmark = pytest.mark.full  # 10 GB


def lines() -> list[str]:
    """Return the section's commands without comments."""
    section = (ROOT / "README.md").read_text().split("## Reproduce the paper\n", 1)[1]
    block = re.match(r"\n```bash\n(.*?)```", section, re.DOTALL)
    assert block
    return [line.partition("  #")[0].strip() for line in block[1].splitlines()]


def bare(**more: str) -> dict[str, str]:
    """Return the environment of a shell without an active environment."""
    ours = {"PYTHON", "PYTHONPATH", "VIRTUAL_ENV", "RAY_ADDRESS", "MODEL_PATH", "VERL_PLATFORM", "RPG_HOME", "DRY_RUN"}
    ours.add("HF_HUB_OFFLINE")  # with which a model has to be here
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("CONDA_")}
    here = str(Path(sys.prefix) / "bin")
    kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if part != here)
    return {**kept, "WANDB_MODE": "offline", **more}


class Shell:
    """A clone, and a shell in it that runs line after line."""

    def __init__(self, clone: Path, environment: dict[str, str]):
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        self.clone, self.state = clone, clone.with_suffix(".state")
        self.environment = environment
        self.state.write_text("")

    def run(self, line: str, code: int = 0) -> str:
        """Run a line, check its exit code, return its output; its settings (`source`) stay for the next line."""
        keep = f'source "{self.state}"; cd "{self.clone}"; {line}\ncode=$?; export -p > "{self.state}"; exit $code'
        done = subprocess.run(
            ["bash", "-c", keep], env=self.environment, capture_output=True, text=True, timeout=1800, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Return a directory outside pytest's, which would keep three of 10 GB each."""
    with tempfile.TemporaryDirectory() as directory:
        copies = Path(directory) / "downloads"
        copies.mkdir()
        for name, rows in FLAT.items():
            write_rows(copies / f"{name}.parquet", rows)
        rows = [dapo_row(dapo_problem(n), str(n), f"i{n}") for n in range(900)]  # more than a batch of 512
        write_rows(copies / "dapo-math-17k-eng.parquet", rows)
        yield Path(directory)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has GPUs, and the run would begin")
def test_a_bare_shell(place):
    """Every command up to the device, and a dry run, a start by name, table and plot."""
    setup, activate, data, plan, run, reproduce = lines()
    assert (activate, run) == ("source .venv-gpu/bin/activate", f"bash {SCRIPT}")
    shell = Shell(place / "bare", bare(FROM_DIR=str(place / "downloads")))
    shell.run(setup)
    prefix = f"{shell.clone}/.venv-gpu"
    shell.run(activate)
    assert f"prepare_data: {prefix}/bin/" in shell.run(data)
    assert not (shell.clone / ".venv").exists()
    printed = shell.run(f"DRY_RUN=1 {run}")
    assert f"environment: {prefix}/bin/" in printed
    assert "loss_mode: rpg_rf_urkl_clip_ppo" in printed
    shell.run(plan)

    name = Path(SCRIPT).stem.removeprefix("run_")
    for start in (run, f"rpg train {name}"):
        refused = shell.run(start, code=2)
        wrong = [line for line in refused.splitlines() if line.startswith("error: ")]
        assert any("n_gpus_per_node=8" in line for line in wrong), refused
        not_here = ("n_gpus_per_node", "set CKPTS_DIR elsewhere")  # GPUs, a large disk
        assert all(any(words in line for words in not_here) for line in wrong), refused

    finished = shell.clone / "checkpoints" / name
    finished.mkdir(parents=True)
    (finished / "config.yaml").write_text(shell.run(f"DRY_RUN=1 {run} 2>/dev/null"))
    metrics = [{"step": step, "data": {"val-core/aime24/acc/mean@1": 0.1 * step}} for step in (1, 2)]
    (finished / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    assert "AIME24" in shell.run("rpg table checkpoints/* --paper 8")
    shell.run("rpg plot checkpoints/*")
    assert shell.run(f"{reproduce} --dry-run").count("\nbash ") + 1 == 12 * 3  # rows of table 8, seeds
