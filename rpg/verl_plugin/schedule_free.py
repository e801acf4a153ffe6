"""Schedule-free AdamW under verl's FSDP engine: gradients at y, everything else at x (paper, E8).

AdamWScheduleFree switches one set of weights between two points: y, where gradients are taken, and the average x, which
is the model. verl builds the optimizer (optim.optimizer_impl, optim.optimizer) but never switches it. Here the weights
are at y during the actor's update, and at x between updates: for rollouts, old and reference log-probs, validation and
checkpoints.

pi_old is therefore the policy at x, while the first mini-batch is evaluated at y, so that its ratio w is not 1. This is
correct: w corrects for the policy that sampled, which is that at x.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PACKAGE = "schedulefree"
OPTIMIZER = "AdamWScheduleFree"


def asked_for(optimizer_impl: str) -> bool:
    """Return whether verl's key optimizer_impl names the package schedulefree or a module of it."""
    return optimizer_impl.partition(".")[0] == PACKAGE


class ScheduleFreeEngine:
    """Mixin before verl's FSDP engine: the optimizer follows the engine into and out of its training mode.

    An engine with another optimizer, or without one (a reference), behaves as in verl.
    """

    module: Any
    optimizer: Any
    _at_y = False

    @contextmanager
    def train_mode(self, **kwargs: Any) -> Iterator[None]:
        """Return verl's training mode (weights and optimizer state on the device) with the weights at y.

        verl enters it once for all mini-batches of an iteration and again for each of them. Only the outer one switches
        the weights, so that no rounding is added between mini-batches.
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
        """As in verl; for schedule-free, return the learning rate of the last optimizer step, including warm-up."""
        lr = super().lr_scheduler_step()  # type: ignore[misc]
        return self.optimizer.param_groups[0]["scheduled_lr"] if is_schedule_free(self.optimizer) else lr


def _drop_gathered(module: Any) -> None:
    """Free the gathered parameters that FSDP2 keeps after a forward pass without a backward pass.

    FSDP2 keeps those of the root module, and the next forward pass would reuse them: embedding and output layer would
    stay at x in the first mini-batch, because the optimizer switches only the shards.
    """
    from torch.distributed.fsdp import FSDPModule

    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def is_schedule_free(optimizer: Any) -> bool:
    """Return whether the optimizer is from the package schedulefree, which need not be installed."""
    return optimizer is not None and type(optimizer).__module__.split(".")[0] == PACKAGE
