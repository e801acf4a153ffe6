"""verl 0.9.1: with weights in host memory, trainer_mode=separate_async uses the current policy as pi_old.

There a batch arrives in several parts, and PPOTrainerSeparateAsync restores the weights from the beginning of the batch
to recompute old log-probs. verl's DetachActorWorker stores them by Tensor.cpu(), which does not copy weights that are
in host memory already, as on a CPU and with param_offload. With this file it copies them.

May go when verl's fsdp2_sharded_save_to_cpu copies tensors that are on the CPU.
"""

import torch
from verl.experimental.separation.engine_workers import DetachActorWorker

from rpg.verl_plugin.reference import shards_on_host, write_shards

Shards = dict[str, torch.Tensor]


class AnchorWorker(DetachActorWorker):
    """verl's worker of separate_async, and all of its ActorRolloutRefWorker, with other handlers of its copies."""

    @staticmethod
    def copy_handler(module: torch.nn.Module) -> tuple[Shards, None]:  # type: ignore[override]
        """Return a copy of this rank's weights in host memory; verl stores it under a number."""
        return shards_on_host(module), None

    @staticmethod
    def restore_handler(module: torch.nn.Module, shards: Shards, _: None) -> None:  # type: ignore[override]
        """Write such a copy into the module."""
        write_shards(shards, module)
