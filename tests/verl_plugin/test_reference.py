"""When pi_ref is renewed, and what of it is saved; test_four_ranks.py shards it and resumes."""

import copy

import pytest
import torch
from tiny_fsdp import process_group

from rpg.config import section
from rpg.verl_plugin.reference import Reference

STEPS = 2  # optimizer steps an iteration
MODES = {"fixed": {}, "every_k": {"every_k": 5}, "kl_target": {"kl_target": 0.3, "kl_ema": 0.5}}


def made(mode: str) -> Reference:
    torch.manual_seed(0)
    actor = torch.nn.Linear(3, 2)
    settings = section.Reference(**{"mode": mode, "every_k": None, "kl_target": None, "kl_ema": 0.9, **MODES[mode]})
    return Reference(actor, copy.deepcopy(actor), settings)


def learn(model: torch.nn.Module) -> None:
    with torch.no_grad():
        model.weight.add_(1.0)


@pytest.mark.parametrize("mode", MODES)
def test_reference_is_the_copy_that_the_rule_says(mode):
    """The rules of the paper's section 4, restated."""
    reference = made(mode)
    expected, steps, ema, updates = reference.actor.weight.clone(), 0, 0.0, 0
    for kl in torch.rand(20, generator=torch.Generator().manual_seed(0)).tolist():
        reference.begin_iteration()
        if (mode == "every_k" and steps >= 5) or (mode == "kl_target" and ema > 0.3):
            expected, steps, ema, updates = reference.actor.weight.clone(), 0, 0.0, updates + 1
        assert torch.equal(reference.model.weight, expected)
        learn(reference.actor)
        reference.end_iteration(STEPS, kl)
        steps += STEPS
        ema = 0.5 * ema + 0.5 * kl if mode == "kl_target" else 0.9 * ema + 0.1 * kl
        metrics = {"reference/age": steps, "reference/updates": updates, "reference/kl_ema": ema}
        assert reference.metrics() == pytest.approx(metrics, rel=1e-12)
    # 20 iterations of 2 steps; every_k=5 is reached after 3 iterations: at the start of 4, 7, ... 19
    assert updates == {"fixed": 0, "every_k": 6}.get(mode, updates)
    assert mode != "kl_target" or 2 <= updates < 19


def test_it_waits_for_copies_to_the_host(monkeypatch):
    """verl's offload_fsdp2_model_to_cpu does not; without a GPU nothing else shows it."""
    reference, waits = made("every_k"), []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(1))
    reference.state.age = 99
    reference.begin_iteration()
    assert len(waits) == 2  # the actor's and the reference's


def test_files(tmp_path):
    """A fixed reference needs no shards, which a moved one has; it cannot become fixed."""
    with process_group():
        for mode in ("fixed", "every_k"):
            saved, loaded = made(mode), made(mode)
            learn(saved.model)
            saved.end_iteration(STEPS, 0.25)
            saved.save(tmp_path / mode / "actor")
            loaded.load(tmp_path / mode / "actor")
            assert loaded.state == saved.state
            assert torch.equal(loaded.model.weight, saved.model.weight) is (mode == "every_k")
        with pytest.raises(ValueError, match="has moved"):
            made("fixed").load(tmp_path / "every_k" / "actor")
