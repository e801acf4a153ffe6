"""verl 0.9.1 runs code in a checkpoint file: it reads every file by torch.load(weights_only=False).

torch has an environment variable that overrides this argument. It is set only while a checkpoint is read, because verl
also transfers batches between its processes by torch.load.

May go when verl's FSDPCheckpointManager.load_checkpoint and PPOTrainer._load_checkpoint pass weights_only=True.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch
import torch.distributed.tensor  # lets torch read the tensors of FSDP2

SWITCH = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
# verl's checkpoints also contain the state of numpy's generator, an array
ARRAY = [numpy.empty(0).__reduce__()[0], numpy.ndarray, numpy.dtype, numpy.dtypes.UInt32DType]


@contextmanager
def enforced() -> Iterator[None]:
    """Make torch.load of this process read only tensors and plain data, regardless of its argument.

    A file with another type raises torch's pickle.UnpicklingError, which names it; a module that
    actor_rollout_ref.model.external_lib imports can allow it by torch.serialization.add_safe_globals.
    """
    before = os.environ.copy()
    os.environ[SWITCH] = "1"
    try:
        with torch.serialization.safe_globals(ARRAY):
            yield
    finally:
        os.environ.pop(SWITCH)
        if SWITCH in before:
            os.environ[SWITCH] = before[SWITCH]


def install() -> None:
    """Make verl's FSDP engines of this process load checkpoints in this way; safe to call more than once."""
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    if not hasattr(FSDPCheckpointManager.load_checkpoint, "__wrapped__"):
        decorated = enforced()(FSDPCheckpointManager.load_checkpoint)
        FSDPCheckpointManager.load_checkpoint = decorated  # type: ignore[method-assign]
