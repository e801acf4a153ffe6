"""verl 0.9.1: with weights in host memory, trainer_mode=separate_async uses the current policy as pi_old.

There a batch arrives in several parts, and PPOTrainerSeparateAsync restores the weights from the beginning of the batch
to recompute old log-probs. verl's DetachActorWorker stores them by Tensor.cpu(), which does not copy weights that are
in host memory already, as on a CPU and with param_offload. This file copies them.

May go when verl's save_model_to_cpu copies tensors that are on the CPU.
"""

from typing import Any

import torch
from verl.single_controller.base.decorator import Dispatch, register

from rpg.verl_plugin.reference import copy_shards, local, readable_state


class AnchorWorker:
    """Mixin before verl's ActorRolloutRefWorker; the methods have the names of verl's DetachActorWorker."""

    actor: Any
    _kept: dict[int, dict[str, torch.Tensor]]

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[attr-defined]
    def save_model_to_cpu(self, n: int) -> None:
        """Store a copy of this rank's weights in host memory under the number n."""
        self._kept = getattr(self, "_kept", {})
        self._kept[n] = {name: local(tensor).to("cpu", copy=True) for name, tensor in self._weights().items()}

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[attr-defined]
    def restore_model_from_cpu(self, n: int) -> None:
        """Restore copy n to the actor."""
        copy_shards(self._kept[n], self._weights())

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[attr-defined]
    def clear_cpu_model(self, n: int) -> None:
        """Drop copy n."""
        del self._kept[n]

    def _weights(self) -> dict[str, torch.Tensor]:
        return readable_state(self.actor.engine.module)
