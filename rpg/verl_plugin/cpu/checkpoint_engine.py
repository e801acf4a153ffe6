"""verl's checkpoint engine of the cpu platform: weights to rollouts that have logical GPUs of their own.

Where that is so (trainer.v1.trainer_mode=separate_async), verl 0.9.1 has the trainer's weights carried by a checkpoint
engine. It refuses `naive` there, and all others of its own want a device. rollout.py registers this one on the cpu
platform; a run takes it by `actor_rollout_ref.rollout.checkpoint_engine.backend=rpg_shared_memory`.
"""

from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

from rpg.verl_plugin.cpu.shared_memory import SharedMemoryTransfer

BACKEND = "rpg_shared_memory"


class SharedMemoryCheckpointEngine(SharedMemoryTransfer, CheckpointEngine):
    """verl makes one in every rank of the trainer and in every worker of a rollout."""


def register() -> None:
    """Let verl find the engine by its name; safe to call more than once."""
    CheckpointEngineRegistry.register(BACKEND)(SharedMemoryCheckpointEngine)  # type: ignore[attr-defined]
