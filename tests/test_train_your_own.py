"""README's snippet as it stands; docs/train_your_own.md: own data, reward and loss, up to the run's configuration."""

import csv
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "train_your_own.md").read_text(encoding="utf-8")


def blocks(section: str, language: str) -> list[str]:
    """Return the code blocks of a section of the page."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def shell(commands: str, directory: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=directory, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def prepare(directory: Path) -> None:
    """Write the page's data from a CSV of sums, and try both of its rewards; reward.py is the first."""
    with open(directory / "problems.csv", "w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["Question", "Answer"])
        table.writerows([f"What is {a} + {b}?", a + b] for a in range(20) for b in range(20))
    shell(blocks("Your data", "bash")[0], directory)
    for reward in reversed(blocks("Your reward", "python")):
        (directory / "reward.py").write_text(reward)
        shell(blocks("Your reward", "bash")[0], directory)


def test_the_snippet_of_the_readme():
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(snippet, names)
    assert names["loss"].shape == names["log_prob"].shape
    assert torch.equal(names["log_prob"].grad != 0, names["mask"] != 0)


@pytest.mark.slow
def test_data_and_reward_the_laptops_data_and_reasoning_gym(tmp_path: Path):
    prepare(tmp_path)
    assert (tmp_path / "data" / "mine_test.parquet").is_file()
    shell(f"DRY_RUN=1 {blocks('Your reward', 'bash')[1]}", tmp_path)
    pytest.importorskip("reasoning_gym")
    for section in ("On a laptop", "reasoning-gym"):
        shell(blocks(section, "bash")[0], tmp_path)


@pytest.mark.slow
def test_an_own_loss(tmp_path: Path):
    """The page's file passes the checks under the page's overrides; tests/e2e/test_own_run.py trains with it."""
    (tmp_path / "mine.py").write_text(blocks("Your loss or estimator", "python")[0])
    command = blocks("Your loss or estimator", "bash")[0]
    shell(f"DRY_RUN=1 {command}", tmp_path)
