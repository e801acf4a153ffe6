"""A name for the socket between the actor and vLLM that no other run on the machine has.

verl 0.9.1 sends the actor's weights to vLLM through a socket file in /tmp and puts Ray's job id into its name, so that
runs on one machine stay apart. A Ray that a run starts for itself counts its jobs from 1, though: two such runs have
one name, and wait for each other for ever, or one's vLLM gets the other's weights. Here the id of the Ray node, which
is random, stands beside the job's.

Imported, this module puts its classes in verl's registries; nothing of vLLM is imported before verl asks for one of
them. Two keys have it imported: `actor_rollout_ref.model.external_lib` in the training process, and
`actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module` in verl's CheckpointEngineWorker, which under
trainer_mode=separate_async is the actor's side of a rollout with GPUs of its own. With the first alone that worker
takes verl's class, and the two sides wait at different sockets for ever.
As the first has it imported where the actor lives, it also has checkpoints read there as weights_only.py says. Both
have it imported where verl looks for a checkpoint engine, so that the cpu platform's is registered here.
"""

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

from rpg.verl_plugin import cpu, weights_only


def register() -> None:
    """Let verl find our subclasses where it looks for vLLM's two sides; safe to call more than once."""
    base._ROLLOUT_REGISTRY["vllm", "async"] = "rpg.verl_plugin.rollout_classes.ServerAdapter"
    RolloutReplicaRegistry.register("vllm", _replica)
    if cpu.requested():
        from rpg.verl_plugin import checkpoint_engine

        checkpoint_engine.register()


def _replica() -> type[RolloutReplica]:
    from rpg.verl_plugin.rollout_classes import vLLMReplica

    return vLLMReplica


register()
weights_only.install()
