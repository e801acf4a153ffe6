"""Every method through one of its scripts on the real stack: three steps, and what the first update did.

The table of gradient norms and parameter changes is printed with `pytest -s`. The rollouts of two runs need not be
the same, so that equal methods may differ here: tests/recipe/test_updates.py compares them on one batch.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
import torch.distributed.tensor  # lets torch.load read the tensors of FSDP2
from safetensors.torch import load_file

from tests.e2e.test_stack import ROLLOUT_KL

pytestmark = [pytest.mark.e2e, pytest.mark.full]

ROOT = Path(__file__).parents[2]
TOY = ROOT / "runs" / "toy"
# The other scripts of a method differ from these in a number or a divergence, which unit tests compare.
SCRIPTS = [
    ROOT / "recipe/rpg/cpu" / f"run_{name}.sh"
    for name in (
        "dapo_cpu",
        "grpo_cpu",
        "grpo_corrected_cpu",
        "rfpp_cpu_1e-4",
        "rfppb_cpu_1e-4",
        "rpg_cpu",
        "rpg_cpu_fkl1e-4",
        "rpg_cpu_ufkl1e-4_rf",
        "rpg_cpu_rkl1e-4_rf_clip_ppo_0.1_0.1",
    )
]


@pytest.fixture(scope="module")
def table():
    rows: list[str] = []
    yield rows
    print("", f"{'script':60} {'gradient norm':>14} {'change':>12}", *rows, sep="\n")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_three_steps(script, table, tmp_path):
    done = subprocess.run(
        [
            "bash",
            str(script),
            "trainer.total_training_steps=3",
            "trainer.test_freq=-1",
            "trainer.val_before_train=false",
            "trainer.save_freq=1",
            "actor_rollout_ref.actor.optim.lr_warmup_steps=0",  # verl's warm-up begins with a step of size 0
            "data.seed=1",
            "rpg.console=full",
        ],
        cwd=tmp_path,
        env={**os.environ, "CKPTS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    run = tmp_path / script.stem.removeprefix("run_")
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    norms = {step["step"]: step["data"]["actor/grad_norm"] for step in steps if "actor/grad_norm" in step["data"]}
    assert list(norms) == [1, 2, 3]
    assert all(0 < norm < 100 for norm in norms.values()), norms
    # the rollouts are those of this policy (the bound: test_stack.py)
    assert all(abs(step["data"]["rollout_corr/kl"]) < ROLLOUT_KL for step in steps)

    before = load_file(TOY / "model" / "model.safetensors")
    after = torch.load(run / "global_step_1/actor/model_world_size_1_rank_0.pt", weights_only=True)
    change = sum((_local(after[key]).float() - value.float()).square().sum().item() for key, value in before.items())
    assert change > 0
    table.append(f"{script.stem:60} {norms[1]:14.6f} {change**0.5:12.6f}")


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[operator]
