"""A TransferQueue of the run's own, also beside others on one Ray cluster.

TransferQueue has one controller a cluster, an actor whose name and namespace are fixed, so that a teacher's job can
serve another's (Ascend/TransferQueue, pull request 115); init takes the one that it finds there. Two of verl's runs
therefore put their responses into one partition "train", each may train on the other's, and the first that ends takes
the controller along, for which the other then waits for ever. Here it is in the namespace of the job, which Ray gives
to each, and is neither found by others nor taken from them.
"""

import functools
import os
from typing import Any

OWN = "RPG_JOB_QUEUE"  # set to 1 by rpg/launching for all processes of a run; plain verl stays as it is
NAME = "TransferQueueController"


def requested() -> bool:
    """Whether this process belongs to a run that has a TransferQueue of its own."""
    return os.environ.get(OWN) == "1"


def install() -> None:
    """Have TransferQueue look for its controller in this job's namespace alone, and put it there; once a process."""
    import ray
    from transfer_queue import interface

    made, connect = interface.TransferQueueController.options, interface._init_from_existing
    if getattr(connect, "of_this_job", False):
        return

    @functools.wraps(made)  # what was there can still be asked what it is like (parts.py)
    def options(**given: Any) -> Any:
        return made(**{**given, "namespace": None})

    @functools.wraps(connect)
    def init_from_existing() -> bool:
        if interface._TQ_CONTROLLER is None:
            try:
                interface._TQ_CONTROLLER = ray.get_actor(NAME)
            except ValueError:
                return False
        return connect()

    init_from_existing.of_this_job = True  # type: ignore[attr-defined]
    interface.TransferQueueController.options = options
    interface._init_from_existing = init_from_existing
