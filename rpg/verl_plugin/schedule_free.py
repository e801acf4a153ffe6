"""Schedule-free AdamW under verl's FSDP engine: gradients at y, everything else at x (paper, E8).

AdamWScheduleFree keeps one set of weights and moves it between two points: y, where gradients are taken, and
x, the average, which is the model. verl builds the optimizer (optim.optimizer_impl, optim.optimizer) but never
moves it. Here it stands at y exactly while the actor is updated, and at x for whatever comes between two
updates: rollouts, old and reference log-probs, validation, checkpoints.

pi_old is therefore the policy at x, while the first mini-batch is evaluated at y: its ratio w is not 1. That is
right: w corrects for the policy that sampled, and that one was x.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

PACKAGE = "schedulefree"
OPTIMIZER = "AdamWScheduleFree"
OPTIM = "actor_rollout_ref.actor.optim"
INSTALL = "pip install 'schedulefree>=1.4'"


def asked_for(optimizer_impl: str) -> bool:
    """Whether verl's key optimizer_impl names the package schedulefree, or a module of it."""
    return optimizer_impl.partition(".")[0] == PACKAGE


class ScheduleFreeEngine:
    """Mixed in before verl's FSDP engine: the optimizer follows the engine into and out of its training mode.

    An engine with another optimizer, or with none (a reference), behaves as verl wrote it.
    """

    module: Any
    optimizer: Any
    _at_y = False

    def _build_lr_scheduler(self, optimizer: "Optimizer") -> "LRScheduler":
        """verl's scheduler, or for schedule-free one that leaves the learning rate alone."""
        if not is_schedule_free(optimizer):
            return super()._build_lr_scheduler(optimizer)  # type: ignore[misc]
        from torch.optim.lr_scheduler import ConstantLR

        return ConstantLR(optimizer, factor=1.0)

    @contextmanager
    def train_mode(self, **kwargs: Any) -> Iterator[None]:
        """verl's training mode, in which weights and optimizer state are on the device, with the weights at y.

        verl enters it once for all mini-batches of an iteration and again for each of them: only the outer one
        moves the weights, so that no rounding is added between mini-batches.
        """
        with super().train_mode(**kwargs):  # type: ignore[misc]
            if self._at_y or not is_schedule_free(self.optimizer):
                yield
                return
            _drop_gathered(self.module)
            self.optimizer.train()
            self._at_y = True
            try:
                yield
            finally:
                _drop_gathered(self.module)
                self.optimizer.eval()
                self._at_y = False

    def lr_scheduler_step(self) -> float:
        """As verl's; for schedule-free the learning rate of the last optimizer step, warm-up included."""
        lr = super().lr_scheduler_step()  # type: ignore[misc]
        return self.optimizer.param_groups[0]["scheduled_lr"] if is_schedule_free(self.optimizer) else lr


def _drop_gathered(module: Any) -> None:
    """Forget the whole parameters that FSDP2 still holds after a forward pass without a backward pass.

    FSDP2 keeps those of the root module, and the next forward pass would take them as they are: embedding and
    output layer would stay at x for the first mini-batch, because the optimizer moves the shards.
    """
    from torch.distributed.fsdp import FSDPModule

    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def is_schedule_free(optimizer: Any) -> bool:
    """Whether optimizer is one of the package schedulefree; the package need not be installed."""
    return optimizer is not None and type(optimizer).__module__.split(".")[0] == PACKAGE
