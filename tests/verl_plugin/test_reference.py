"""pi_ref against independent copies, over ranks and a restart."""

import pytest
import torch
from tiny_fsdp import full_state, process_group
from training import STEPS, Run

ITERATIONS = 20
OPTIMIZERS = ("adamw", "schedule_free")


@pytest.fixture(scope="module")
def group():
    torch.set_num_threads(1)
    with process_group():
        yield


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class TestAgainstCopies:
    """Over 20 iterations the reference equals an independent copy bit for bit."""

    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    @pytest.mark.parametrize("mode", ["fixed", "every_k", "kl_target"])
    def test_reference_is_the_copy_that_the_rule_says(self, group, mode, optimizer):
        run = Run(mode, optimizer)
        expected, steps, ema, updates = full_state(run.actor), 0, 0.0, 0
        drift = 0.0
        for iteration in range(ITERATIONS):
            start = full_state(run.actor)
            run.iterate(iteration)
            # the rules of the paper's section 4, restated
            if (mode == "every_k" and steps >= 5) or (mode == "kl_target" and ema > 2e-3):
                expected, steps, ema, updates = start, 0, 0.0, updates + 1
            steps += STEPS
            log_rho = torch.cat([r - o for o, r in zip(run.trace[-1]["old"], run.trace[-1]["ref"], strict=True)])
            kl = (log_rho.double().exp() - 1 - log_rho.double()).mean().item()
            ema = 0.5 * ema + 0.5 * kl if mode == "kl_target" else 0.9 * ema + 0.1 * kl
            assert equal(full_state(run.reference.model), expected)
            assert run.trace[-1]["reference/age"] == steps
            assert run.trace[-1]["reference/updates"] == updates
            # float32 log-ratios in, float64 from there on: only exp - 1 against expm1 differs, by 1e-16 each
            assert run.trace[-1]["reference/kl_ema"] == pytest.approx(ema, rel=1e-6, abs=1e-12)
            drift = max(drift, kl)
        assert drift > 1e-4, "the policy never left the reference: nothing was tested"
        # 20 iterations of 2 steps; every_k=5 is reached after 3 iterations: at the start of 4, 7, ... 19
        assert updates == {"fixed": 0, "every_k": 6}.get(mode, updates)
        assert mode != "kl_target" or 2 <= updates < ITERATIONS - 1


def test_it_waits_for_copies_to_the_host(group, monkeypatch):
    """verl's offload_fsdp2_model_to_cpu does not; without a GPU nothing else shows it."""
    run, waits = Run("every_k"), []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(1))
    run.reference.state.age = 99
    run.reference.begin_iteration()
    assert len(waits) == 2  # the actor's and the reference's


class TestFiles:
    def test_mode_fixed_saves_no_shards_and_needs_none(self, group, tmp_path):
        run = Run("fixed")
        run.iterate(0)
        run.reference.save(tmp_path)
        [file] = tmp_path.iterdir()
        assert set(torch.load(file)) == {"state"}
        resumed = Run("fixed")
        initial = full_state(resumed.reference.model)
        resumed.reference.load(tmp_path)
        assert resumed.reference.state == run.reference.state
        assert equal(full_state(resumed.reference.model), initial)

    def test_mode_fixed_refuses_a_reference_that_moved(self, group, tmp_path):
        Run("every_k").reference.save(tmp_path)
        with pytest.raises(ValueError, match="has moved"):
            Run("fixed").reference.load(tmp_path)
