"""Rollouts with a logical GPU of their own (trainer_mode=separate_async) on the real stack: weights and versions."""

import pytest
import torch
from safetensors.torch import load_file

from rpg.run import cleanup
from tests.e2e import short_run
from tests.e2e.conftest import PATIENCE, TOY, Run
from tests.e2e.test_stack import ROLLOUT_KL, ROLLOUT_PROBABILITY, assert_on_the_loopback

pytestmark = [pytest.mark.e2e, pytest.mark.full]

# one trains and, while it does not, rolls out as replica 0; the other one rolls out all the time, as replica 1
SEPARATE = [
    "schedule=separate",
    "pi_old=behavior",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=rpg_socket",
    "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=tests.e2e.socket_engine",  # registers it
    "ray_kwargs.ray_init.num_gpus=2",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "data.val_max_samples=8",
]
ONE_MINI_BATCH = "actor_rollout_ref.actor.ppo_mini_batch_size=8"
NOTED = "+actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls=tests.e2e.rollout_weights.Extension"
STALENESS = "training/off_policy/trajectory_staleness"
OLDEST = f"{STALENESS}_worst"  # of the policies that wrote a response
RATIO = ("actor/rpg_ratio_max", "actor/rpg_ratio_min")


def actors(run: Run, steps: range) -> list[dict[str, torch.Tensor]]:
    return [short_run.actor(run.directory, step) for step in steps]


def assert_replica_had(noted, expected: list[dict[str, torch.Tensor]]) -> None:
    """Assert that the replica had these weights in this order."""
    had = [torch.load(noted / f"{number}.pt") for number in range(len(expected))]
    assert [short_run.rolls_out_with(*pair) for pair in zip(had, expected, strict=True)] == [True] * len(expected)
    assert not short_run.rolls_out_with(had[-1], expected[-2])  # the last step moved them


def test_a_batch_that_waits_for_its_rollouts_is_of_the_present_policy(tmp_path):
    """No batch ahead, one mini-batch: the trained policy is the sampling policy, in another engine."""
    settings = [*SEPARATE, ONE_MINI_BATCH, "trainer.v1.separate_async.num_warmup_batches=0"]
    records = short_run.run(tmp_path / "run", 4, *settings)
    assert len(records) == 4
    for record in records:
        assert record[f"{STALENESS}/max"] == 0
        assert abs(record["actor/rpg_kl"]) < ROLLOUT_KL
        assert [record[name] for name in RATIO] == pytest.approx([1, 1], abs=ROLLOUT_PROBABILITY)
    assert max(record["actor/grad_norm"] for record in records) > 1e-3


def test_twenty_steps_killed_and_resumed(start, tmp_path):
    """SIGKILL to the whole run; the same command resumes: each step once, and rollouts have its weights bit for bit.

    No socket listens to a network, and no files are left.
    """
    steps, noted = 20, [tmp_path / "first", tmp_path / "second"]
    settings = [
        *SEPARATE,
        NOTED,
        f"trainer.total_training_steps={steps}",
        "trainer.save_freq=1",
        "trainer.max_actor_ckpt_to_keep=null",
        "trainer.val_before_train=true",
        f"trainer.test_freq={steps}",
    ]
    for directory in noted:
        directory.mkdir()
    first = start(*settings, RPG_TEST_ROLLOUT_WEIGHTS=str(noted[0]))
    first.wait_for_step(1)
    assert_on_the_loopback(first.listeners(), ("ray::WorkerDict", "ray::CheckpointEngineWorker"))
    first.wait_for_step(8)
    first.end()
    first.process.wait()
    assert first.survivors() == []
    last = first.metrics()[-1]["step"]
    again = start(*settings, f"trainer.default_local_dir={first.directory}", RPG_TEST_ROLLOUT_WEIGHTS=str(noted[1]))
    assert again.wait(2 * PATIENCE) == 0, again.text()[-4000:]
    assert again.processes() == []
    records = short_run.metrics(first.directory)
    assert [record["step"] for record in records] == list(range(steps + 1))
    # a batch is asked for before the first step, and before each step that of the next one
    assert records[1][f"{OLDEST}/max"] == records[1][f"{STALENESS}/max"] == 0
    assert max(record[f"{OLDEST}/max"] for record in records[1:]) >= 1
    assert all(record[f"{STALENESS}/mean"] <= record[f"{OLDEST}/mean"] for record in records[1:])
    # the first mini-batch of the first step is of the policy that is trained, all that comes later is not
    assert records[-1]["actor/rpg_kl"] > 100 * ROLLOUT_KL
    resumed = short_run.starts(first.directory)[-1]["after_step"]
    assert resumed in (last, last + 1)  # a checkpoint is saved before its step's metrics
    assert_replica_had(noted[1] / "1", actors(first, range(resumed, steps + 1)))
    assert len(list((noted[1] / "1").iterdir())) == steps - resumed + 1
    assert_replica_had(noted[0] / "1", [load_file(TOY / "model/model.safetensors"), *actors(first, range(1, 9))])
    assert cleanup.remove_weights() == []
