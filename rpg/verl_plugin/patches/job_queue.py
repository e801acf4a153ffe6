"""TransferQueue 0.1.11: two verl runs on one Ray cluster share one queue, and train on each other's responses.

TransferQueue has one controller per cluster, an actor with a fixed name and namespace, so that jobs can share data
(Ascend/TransferQueue, pull request 115). All verl runs use its partition "train", and the first run that ends also ends
the controller; the other run then waits for it forever. With this file the controller lives in the job's namespace.

May go when tests/e2e/test_reproduce.py passes without this file.
"""

import importlib.util
import os
from typing import Any

OWN = "RPG_JOB_QUEUE"  # the recipe sets it to 1 for all processes of a run; plain verl is unchanged
NAME = "TransferQueueController"


def install() -> None:
    """If OWN is set, make TransferQueue create and find its controller in this job's namespace; safe to repeat."""
    if os.environ.get(OWN) != "1" or importlib.util.find_spec("transfer_queue") is None:  # verl's trainer needs it
        return
    import ray
    from transfer_queue import interface

    create, connect = interface.TransferQueueController.options, interface._init_from_existing
    if getattr(connect, "of_this_job", False):
        return

    def options(**actor_options: Any) -> Any:
        return create(**{**actor_options, "namespace": None})

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
