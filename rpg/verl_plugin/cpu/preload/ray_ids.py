"""Import this first, so that classes under `@ray.remote` can be imported before a fork.

Ray's C++ part seeds its random generator at the first id that a process makes, and a fork copies the seeded generator:
all children would make the same ids, and a duplicate id kills a worker. During imports only the decorator `@ray.remote`
on a class makes an id, at one place in ray/actor.py. This module replaces the id type there by one that uses the
system's randomness, so that the generator stays unseeded until after the fork.
"""

import os

import ray.actor
from ray._raylet import ActorClassID


class _SystemClassID(ActorClassID):
    @classmethod
    def from_random(cls) -> ActorClassID:
        """Return a random id like Ray's, made without Ray's generator."""
        return ActorClassID(os.urandom(ActorClassID.size()))


ray.actor.ActorClassID = _SystemClassID  # type: ignore[misc]
