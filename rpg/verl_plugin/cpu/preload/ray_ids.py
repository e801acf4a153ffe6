"""Importing this first lets Ray's classes be imported before a fork: their ids come from the system's randomness.

Ray's C++ part seeds its random generator once in a process, at the first id it makes, and a fork copies the seeded
generator: all children would then make the same ids, and two of one id at the same moment cost a worker its life.
What makes an id while modules are imported is the decorator `@ray.remote` on a class, at one place in ray/actor.py.
Here that place gets an id type that asks the system instead, so that the generator stays unseeded until after the
fork. server.py compares two children to prove it.
"""

import os

import ray.actor
from ray._raylet import ActorClassID


class _SystemClassID(ActorClassID):
    @classmethod
    def from_random(cls) -> ActorClassID:
        """A random id, as Ray's own; made without Ray's generator."""
        return ActorClassID(os.urandom(ActorClassID.size()))


ray.actor.ActorClassID = _SystemClassID  # type: ignore[misc]
