"""README's snippet of plain PyTorch runs as it stands."""

import re
from pathlib import Path

import torch


def test_the_snippet_runs():
    page = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict = {}
    exec(snippet, names)
    assert names["loss"].shape == names["log_prob"].shape
    assert torch.equal(names["log_prob"].grad != 0, names["mask"] != 0)
