"""Checkpoints are read as data: a file in one that holds code is refused, where verl 0.9.1 would run it.

verl reads every file of a checkpoint by torch.load(weights_only=False). torch has a switch of its own over that
argument, an environment variable that it looks at in each call; it is on while a checkpoint is read, and no longer, as
verl also moves batches between its processes by torch.load.
"""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch
import torch.distributed.tensor  # lets torch read the tensors of FSDP2

SWITCH = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
# What verl's checkpoints hold beside tensors and Python's own types: the state of numpy's generator, an array
ARRAY = [numpy.empty(0).__reduce__()[0], numpy.ndarray, numpy.dtype, numpy.dtypes.UInt32DType]


@contextmanager
def enforced() -> Iterator[None]:
    """While in this context, torch.load of this process reads tensors and plain data, whatever its caller asks for.

    A file that names something else ends in torch's pickle.UnpicklingError, which says what; a module that
    actor_rollout_ref.model.external_lib imports can let it pass by torch.serialization.add_safe_globals.
    """
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "1"
    try:
        with torch.serialization.safe_globals(ARRAY):
            yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def install() -> None:
    """Have verl's FSDP engines of this process read their checkpoints so; safe to call more than once."""
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    verls = FSDPCheckpointManager.load_checkpoint
    if hasattr(verls, "__wrapped__"):
        return

    @functools.wraps(verls)
    def load_checkpoint(self, *args, **kwargs):
        with enforced():
            return verls(self, *args, **kwargs)

    FSDPCheckpointManager.load_checkpoint = load_checkpoint  # type: ignore[method-assign]
