"""pi_ref as a separate model: fixed, or renewed every K optimizer steps, or when the KL exceeds a target.

The paper's section 4: pi_ref <- pi_theta every K optimizer steps, or when a moving average of the token-level
KL exceeds kappa. In the reported runs pi_ref is pi_old (mode `old`), which does not use this file: no reference is in
memory or evaluated. In the other modes verl's reference engine lives in the actor's process on the same mesh, so that
each rank copies its own shards without gathering.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from rpg.files.integrity import REFERENCE
from rpg.names import MOVING_REFERENCES as MOVING


@dataclass
class ReferenceState:
    """State that a checkpoint stores besides the weights.

    Attributes:
        age: optimizer steps since pi_ref was last renewed (or since the start).
        updates: number of renewals.
        kl_ema: moving average of the token-level KL, in nats; 0 at the start and after each update.
    """

    age: int = 0
    updates: int = 0
    kl_ema: float = 0.0


@dataclass
class Reference:
    """pi_ref of one rank: the modules whose shards it copies, and when.

    Attributes:
        actor, model: the FSDP2 modules of pi_theta and pi_ref; same architecture, same mesh.
        settings: the section rpg.reference, with another mode than old.
    """

    actor: torch.nn.Module
    model: torch.nn.Module
    settings: Any
    state: ReferenceState = field(default_factory=ReferenceState)

    def begin_iteration(self) -> None:
        """Renew pi_ref if that is due, as it then is on every rank.

        Called before the reference log-probs, when pi_theta is pi_old.
        """
        mode = self.settings.mode
        is_old = mode == "every_k" and self.state.age >= self.settings.every_k
        is_far = mode == "kl_target" and self.state.kl_ema > self.settings.kl_target
        if is_old or is_far:
            write_shards(readable_state(self.actor), self.model)
            self.state = ReferenceState(updates=self.state.updates + 1)

    def end_iteration(self, steps: int, kl: float) -> None:
        """Record the optimizer steps of this iteration and its token-level KL (ActorLoss.take)."""
        decay = self.settings.kl_ema
        self.state.age += steps
        self.state.kl_ema = decay * self.state.kl_ema + (1 - decay) * kl

    def metrics(self) -> dict[str, float]:
        """Return reference/age, reference/updates, reference/kl_ema."""
        return {f"reference/{key}": float(value) for key, value in asdict(self.state).items()}

    def save(self, actor: Path) -> None:
        """Write the state and, for a moving model, this rank's shards. actor: the actor's directory of a checkpoint."""
        path = _file(actor)
        path.parent.mkdir(parents=True, exist_ok=True)
        written: dict[str, Any] = {"state": asdict(self.state)}
        if self.settings.mode in MOVING:
            written["shards"] = shards_on_host(self.model)
        torch.save(written, path)

    def load(self, actor: Path) -> None:
        """Restore what `save` wrote with the same number of ranks; a fixed reference may begin to move.

        Raises:
            FileNotFoundError: it was written with mode=old or on another number of ranks.
            ValueError: mode=fixed, and the checkpoint's reference has moved.
        """
        path = _file(actor)
        written = torch.load(path, map_location="cpu", weights_only=True)
        if "shards" in written:
            if self.settings.mode not in MOVING:
                raise ValueError(f"{path}: this reference has moved: resume with the rpg.reference.mode that moved it")
            write_shards(written["shards"], self.model)
        self.state = ReferenceState(**written["state"])


def readable_state(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return a module's shards once they can be read: verl offloads weights without waiting for the copy to the host.

    This also frees parameters gathered by a forward pass.
    """
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return module.state_dict()


def _file(actor: Path) -> Path:
    ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    return actor.parent / REFERENCE / f"world_size_{ranks}_rank_{rank}.pt"


def shards_on_host(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return a copy of this rank's weights in host memory, without gathering."""
    return {name: _local(tensor).to("cpu", copy=True) for name, tensor in readable_state(module).items()}


@torch.no_grad()
def write_shards(source: dict[str, Tensor], module: torch.nn.Module) -> None:
    """Overwrite this rank's weights with such a copy or another module's state, also from device to host.

    The state dict of an FSDP2 module holds the sharded parameters themselves, so the copy is in place.
    """
    for name, tensor in readable_state(module).items():
        _local(tensor).copy_(_local(source[name]))


def _local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a tensor, sharing its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
