"""Registers our side of vLLM with verl when it is imported, which is all that verl does with it.

Two keys name it: `actor_rollout_ref.model.external_lib` for the task runner and the training process, and
`actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module` for verl's CheckpointEngineWorker, the actor's side
of rollouts with separate GPUs (trainer_mode=separate_async). With only one of the keys, the two sides would wait at
different sockets forever (patches/vllm_server.py).
"""

from functools import partial
from pkgutil import resolve_name

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

OURS = "rpg.verl_plugin.patches.vllm_server"
base._ROLLOUT_REGISTRY["vllm", "async"] = f"{OURS}.ServerAdapter"
RolloutReplicaRegistry.register("vllm", partial(resolve_name, f"{OURS}.vLLMReplica"))  # which imports vLLM
