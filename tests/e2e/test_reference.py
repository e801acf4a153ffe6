"""The reference in the real stack: a killed run resumes, with it."""

import pytest
import torch
from safetensors.torch import load_file

from tests.e2e import short_run
from tests.e2e.conftest import TOY

pytestmark = [pytest.mark.e2e, pytest.mark.full]

MOVING = ["reference=every_k", "rpg.reference.every_k=3"]
SCHEDULE_FREE = ["optim=schedulefree", "actor_rollout_ref.actor.optim.lr=3e-3"]
# Steps that depend on the weights only, so that two runs can be compared: greedy sampling, a baseline over the batch
# (a prompt's answers are then equal), and one mini-batch per iteration (verl orders prompts by random ids).
LOSS = "actor_rollout_ref.actor.policy_loss"
REPEATABLE = [
    "actor_rollout_ref.rollout.top_k=1",
    "rpg.truncated_sampling=true",
    "method=null",  # which would decide the estimator
    "algorithm.adv_estimator=rpg_batchmean",
    f"{LOSS}._target_=rpg.verl_plugin.config.RPGPolicyLossConfig",
    f"{LOSS}.loss_mode=rpg_rf_urkl_clip_ppo",
    f"+{LOSS}.kl_coef=0.1",
    f"+{LOSS}.kl_scope=response",
    "actor_rollout_ref.actor.ppo_mini_batch_size=32",
]


def test_killed_between_two_checkpoints_and_resumed(tmp_path):
    """Checkpoints after steps 2 and 4, killed after 3: repeats steps 3 and 4, with the same final weights."""
    arguments = [4, *MOVING, *SCHEDULE_FREE, *REPEATABLE, "trainer.save_freq=2"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    short_run.run(whole, *arguments)
    run = short_run.begin(killed, *arguments)
    try:
        run.wait_for_step(3)
        run.process.kill()
        run.process.wait()
        assert run.survivors() == []
    finally:
        run.end()
    assert not (killed / "global_step_4").exists()
    metrics = short_run.run(killed, *arguments)
    assert [record["step"] for record in metrics][-2:] == [3, 4]

    # Both runs are one computation, but its sums run in an order that threads decide: 3e-6 apart was seen.
    def close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], start: dict[str, torch.Tensor]) -> None:
        moved = sum(((b[name] - start[name]) ** 2).sum() for name in b) ** 0.5
        apart = sum(((a[name] - b[name]) ** 2).sum() for name in b) ** 0.5
        assert apart <= 1e-4 * moved, f"{apart} apart after a way of {moved}"

    initial = load_file(TOY / "model" / "model.safetensors")
    initial |= {"lm_head.weight": initial.get("lm_head.weight", initial["model.embed_tokens.weight"])}
    close(short_run.actor(killed, 4), short_run.actor(whole, 4), initial)
    a, b = short_run.optimizer(killed, 4), short_run.optimizer(whole, 4)
    scalars = [{k: v for k, v in o["param_groups"][0].items() if k != "params"} for o in (a, b)]
    assert scalars[0] == scalars[1]
    a, b = short_run.reference(killed, 4), short_run.reference(whole, 4)
    assert (a["state"]["age"], a["state"]["updates"]) == (b["state"]["age"], b["state"]["updates"])
    assert a["state"]["kl_ema"] == pytest.approx(b["state"]["kl_ema"], rel=1e-3, abs=1e-9)
    assert b["state"]["updates"] >= 1
    close(a["shards"], b["shards"], initial)
