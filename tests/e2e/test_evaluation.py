"""`rpg eval` and `rpg export` on a checkpoint that the real stack has written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rpg.results.runs import load_runs
from rpg.results.table import build_table
from tests.e2e import short_run
from tests.e2e.conftest import PATIENCE, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.full]

GREEDY = "actor_rollout_ref.rollout.val_kwargs.top_k=1"  # then a validation repeats
SAMPLES = 2


def answers(directory: Path, step: int) -> dict[str, set[str]]:
    """Return problem -> answers in the validation at a step."""
    found: dict[str, set[str]] = {}
    for line in (directory / "validation" / f"{step}.jsonl").read_text().splitlines():
        sample = json.loads(line)
        found.setdefault(sample["input"], set()).add(sample["output"])
    return found


def rpg(*arguments: str) -> str:
    command = [sys.executable, "-m", "rpg.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_evaluated_alone_as_in_the_run_and_exported(tmp_path):
    trained, alone = tmp_path / "trained", tmp_path / "alone"
    short_run.run(
        trained,
        2,
        "trainer.val_before_train=true",
        "trainer.test_freq=2",
        "trainer.save_freq=2",
        "actor_rollout_ref.actor.optim.lr=3e-3",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
        GREEDY,
    )
    checkpoint = trained / "global_step_2"
    shown = rpg("eval", str(checkpoint), f"actor_rollout_ref.rollout.val_kwargs.n={SAMPLES}", "--out", str(alone))
    assert f"pass@{SAMPLES}" in shown

    first, last = answers(trained, 0), answers(trained, 2)
    # the most likely token of two nearly as likely ones hangs on the order of a sum; training changes more than that
    few = len(first) / 100
    assert sum(first[problem] != last[problem] for problem in first) > few
    found = answers(alone, 2)
    assert found.keys() == last.keys()
    assert sum(found[problem] != last[problem] for problem in found) <= few
    lines = (alone / "validation/2.jsonl").read_text().splitlines()
    assert len(lines) == SAMPLES * len((trained / "validation/2.jsonl").read_text().splitlines())
    assert list(build_table(load_runs([alone])).rows) == ["RPG-REINFORCE-URKL"]

    rpg("export", str(checkpoint))
    loaded = AutoModelForCausalLM.from_pretrained(trained / "hf-global_step_2", dtype=torch.float32).state_dict()
    for name, tensor in short_run.actor(trained, 2).items():
        assert torch.equal(loaded[name], tensor.bfloat16().float()), name  # verl's merger writes bfloat16
