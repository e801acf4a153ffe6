"""The plugin's patches of the actor's side of the rollout, and the user's own losses, in this process.

verl imports this module by two keys, and calls nothing of it, so that it ends with a call:
`actor_rollout_ref.model.external_lib` in the training process, and
`actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module` in verl's CheckpointEngineWorker, the actor's side
of rollouts with separate GPUs (trainer_mode=separate_async). With only one of the keys, the two sides would wait at
different sockets forever (patches/socket_name.py). vLLM is imported only when verl asks for a rollout class.
"""

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

from rpg.verl_plugin import external


def install() -> None:
    """Register our side of vLLM with verl, load the user's losses. Safe to call more than once."""
    base._ROLLOUT_REGISTRY["vllm", "async"] = "rpg.verl_plugin.patches.socket_name.ServerAdapter"
    RolloutReplicaRegistry.register("vllm", _replica)
    external.load_all()


def _replica() -> type[RolloutReplica]:
    from rpg.verl_plugin.patches.socket_name import vLLMReplica

    return vLLMReplica


install()
