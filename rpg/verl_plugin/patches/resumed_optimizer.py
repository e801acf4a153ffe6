"""verl 0.9.1: a run resumes with the checkpoint's learning rate, weight decay and betas, whatever its settings say.

torch's load_state_dict restores them with the optimizer's moments, and the scheduler's with the number of its steps.

May go when verl's load_checkpoint sets the hyperparameters of its configuration.
"""

import inspect
from typing import Any


class ConfiguredOptimizerEngine:
    """Mixin before verl's FSDP engine: a loaded optimizer and its schedule have the run's own settings."""

    optimizer: Any
    lr_scheduler: Any

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Load as verl does, and set what the configuration says; the schedule goes on at the loaded step."""
        optimizer, scheduler = self.optimizer, self.lr_scheduler
        if optimizer is None:  # a reference
            super().load_checkpoint(*args, **kwargs)  # type: ignore[misc]
            return
        # what its constructor takes, and the schedule's start: schedule-free keeps its state in the groups, too
        names = inspect.signature(type(optimizer)).parameters.keys() - {"params"} | {"initial_lr"}
        configured = [{name: group[name] for name in group.keys() & names} for group in optimizer.param_groups]
        super().load_checkpoint(*args, **kwargs)  # type: ignore[misc]
        scheduler.base_lrs = [settings["initial_lr"] for settings in configured]
        for group, settings, factor in zip(optimizer.param_groups, configured, scheduler.lr_lambdas, strict=True):
            group.update(settings, lr=settings["initial_lr"] * factor(scheduler.last_epoch))
        scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]
