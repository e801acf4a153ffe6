"""The runs of tests/gpu/test_gpu_stack.py have settings that a machine without a GPU can compose and check."""

import pytest

from rpg.checks import preflight
from rpg.config.compose import of_script
from rpg.registry import scripts
from rpg.toy.demo import DEMOS
from tests.e2e.conftest import SCRIPT
from tests.gpu import test_gpu_stack as stack


@pytest.mark.parametrize("flash", [True, False])
def test_their_settings_are_accepted(monkeypatch, flash):
    monkeypatch.setattr(stack, "FLASH", flash)
    learns = stack.settings("qwen2", *DEMOS["toy"].settings)
    for overrides in (learns, stack.settings("qwen3", *stack.ASYNC), stack.on_all(2), stack.on_all(4), stack.on_all(8)):
        run = of_script(scripts.find(SCRIPT.stem), overrides)
        assert run["trainer.device"] == "cuda"
        preflight.refuse(run, ["cheap"], ["settings"])


def test_the_reference_moves_as_asserted(monkeypatch):
    """Updates [0, 0, 1, 1]: the first is due once the two steps of two batches are made."""
    run = of_script(scripts.find(SCRIPT.stem), stack.on_all(2))
    updates = run["data.train_batch_size"] // run["actor_rollout_ref.actor.ppo_mini_batch_size"]
    assert run.rpg.reference.every_k == 2 * updates
