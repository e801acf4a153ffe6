"""A checkpoint engine without a device: sends weights to rollouts with separate logical GPUs.

With trainer.v1.trainer_mode=separate_async, verl 0.9.1 transfers the trainer's weights by a checkpoint engine. It
rejects `naive` there, and its other engines need a device. The weights go through Unix sockets on one machine, in a
directory that only this user can enter. If one side fails or dies, its connections close and the other side raises.
"""

import pickle
import tempfile
from collections.abc import AsyncGenerator, Iterator
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

import rpg.verl_plugin.rollout  # noqa: F401  # the module in whose place verl imports this one


@CheckpointEngineRegistry.register("rpg_socket")  # type: ignore[attr-defined]
class SocketCheckpointEngine(CheckpointEngine):
    """verl creates one per rank of the trainer and per rollout worker, and calls the methods in this order."""

    def __init__(self, bucket_size: int, is_master: bool = False):
        """is_master: whether this is the trainer's rank 0, which sends. bucket_size: unused."""
        self.is_master = is_master
        self._connections: list[Connection] = []

    def prepare(self) -> dict[str, str]:
        """Return the sender's socket as `address`; {} for others."""
        if not self.is_master:
            return {}
        self._folder = tempfile.TemporaryDirectory(prefix="rpg-weights-")
        address = f"{self._folder.name}/socket"
        self._listener = Listener(address, backlog=128)
        return {"address": address}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, str]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Return the arguments of init_process_group for the trainer's ranks and for the rollouts' workers.

        metadata: the results of prepare, the trainer's ranks first.
        """
        trainer = {"receivers": [rollout_world_size] * actor_wg_world_size}
        return trainer, {"address": [metadata[0]["address"]] * rollout_world_size}

    def init_process_group(self, receivers: int = 0, address: str | None = None) -> None:
        """Connect the sender with its receivers, or a receiver with the sender at `address`."""
        if address:
            self._connections = [Client(address)]
        elif self.is_master:
            self._connections = [self._listener.accept() for _ in range(receivers)]
            self._listener.close()
            self._folder.cleanup()

    def finalize(self) -> None:
        """Close the connections. Safe to call more than once."""
        for connection in self._connections:
            connection.close()
        self._connections = []

    async def send_weights(self, weights: Iterator[tuple[str, torch.Tensor]], global_steps: int | None = None) -> None:
        """Send all (name, tensor) pairs to the rollouts; ranks other than 0 only take part in gathering them."""
        try:
            for name, weight in weights:
                self._send((name, weight.detach().clone()))  # pickling a view would send all of its storage
            self._send(None)
        finally:
            self.finalize()

    def _send(self, message: tuple[str, torch.Tensor] | None) -> None:
        body = pickle.dumps(message) if self._connections else b""
        for connection in self._connections:
            connection.send_bytes(body)

    async def receive_weights(self, global_steps: int | None = None) -> AsyncGenerator[tuple[str, torch.Tensor], None]:
        """Yield all weights as (name, tensor); the caller owns the tensors."""
        [connection] = self._connections
        try:
            while (message := pickle.loads(connection.recv_bytes())) is not None:
                yield message
        finally:
            self.finalize()
