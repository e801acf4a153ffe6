"""verl's checkpoint engine of the cpu platform: weights to rollouts that have logical GPUs of their own.

Where that is so (trainer.v1.trainer_mode=separate_async), verl 0.9.1 has the trainer's weights carried by a checkpoint
engine. It refuses `naive` there, and all others of its own want a device. rollout.py registers this one on the cpu
platform; a run takes it by `actor_rollout_ref.rollout.checkpoint_engine.backend=rpg_socket`.

The weights go through Unix sockets of one machine, in a directory that this user alone can enter. A side that fails or
dies ends its connections, and the other one raises: EOFError, ConnectionResetError or BrokenPipeError.
"""

import pickle
from collections.abc import AsyncGenerator, Iterator
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

from rpg.files.lock import Scratch


@CheckpointEngineRegistry.register("rpg_socket")  # type: ignore[attr-defined]
class SocketCheckpointEngine(CheckpointEngine):
    """verl makes one in every rank of the trainer and in every worker of a rollout, and calls the methods in order."""

    def __init__(self, bucket_size: int, is_master: bool = False):
        """is_master: whether this is the trainer's rank 0, which sends. bucket_size: not used."""
        self.is_master = is_master
        self._connections: list[Connection] = []

    def prepare(self) -> dict[str, str]:
        """Of the sender: `address`, the socket at which it waits."""
        if not self.is_master:
            return {}
        self._scratch = Scratch("weights")
        address = str(self._scratch.path / "socket")
        self._listener = Listener(address, backlog=128)
        return {"address": address}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, str]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Arguments of init_process_group, a list over the trainer's ranks and one over the rollouts' workers.

        metadata: what prepare returned, the trainer's ranks first.
        """
        trainer = {"receivers": [rollout_world_size] * actor_wg_world_size}
        return trainer, {"address": [metadata[0]["address"]] * rollout_world_size}

    def init_process_group(self, receivers: int = 0, address: str | None = None) -> None:
        """Connect the sender with so many receivers, or a receiver with the sender at address."""
        if address:
            self._connections = [Client(address)]
        elif self.is_master:
            self._connections = [self._listener.accept() for _ in range(receivers)]
            self._listener.close()
            self._scratch.remove()

    def finalize(self) -> None:
        """Close the connections; once more changes nothing."""
        for connection in self._connections:
            connection.close()
        self._connections = []

    async def send_weights(self, weights: Iterator[tuple[str, torch.Tensor]], global_steps: int | None = None) -> None:
        """Send all of (name, tensor) to the rollouts; a rank other than 0 only takes its part in gathering them."""
        try:
            for name, weight in weights:
                self._send((name, weight.detach().clone()))  # a view would be sent with all of its memory
            self._send(None)
        finally:
            self.finalize()

    def _send(self, message: tuple[str, torch.Tensor] | None) -> None:
        body = pickle.dumps(message) if self._connections else b""
        for connection in self._connections:
            connection.send_bytes(body)

    async def receive_weights(self, global_steps: int | None = None) -> AsyncGenerator[tuple[str, torch.Tensor], None]:
        """All weights as (name, tensor), each tensor the caller's to keep."""
        [connection] = self._connections
        try:
            while (message := pickle.loads(connection.recv_bytes())) is not None:
                yield message
        finally:
            self.finalize()
