"""The door by which verl's own workers call rpg.verl_plugin.install: verl imports a module, and calls nothing of it.

Two keys name it: `actor_rollout_ref.model.external_lib` for the training process, and
`actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module` for verl's CheckpointEngineWorker, the actor's side
of rollouts with separate GPUs (trainer_mode=separate_async). With only one of the keys, the two sides would wait at
different sockets forever (patches/vllm_server.py).
"""

from rpg.verl_plugin import install

install()
