"""Weights from one process to others of the same machine, through shared memory, a bucket at a time.

The sender puts weights into a bucket, whole tensors or parts of them, says what is in it, and goes on when every
receiver has copied it. The bucket is shared memory without a name, so that nothing in /dev/shm outlives a process that
is killed; it is handed over the connection by which the two sides talk, a Unix socket in a directory that this user
alone can enter, gone when all are connected. A side that fails or dies ends the connection, and the other one says
whose: nobody waits for it. checkpoint_engine.py makes verl's checkpoint engine of this.
"""

import asyncio
import json
import mmap
import os
import socket
import struct
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch

from rpg.files.lock import Scratch

PATIENCE = 300.0  # seconds to find each other; verl asks both sides in the same moment
COPIED = b"\1"
_LENGTH = struct.Struct("!Q")
_CREDENTIALS = struct.Struct("3i")  # struct ucred of SO_PEERCRED: process, user, group


class ConnectionEnded(RuntimeError):
    """The other side failed or died before all weights were there."""


@dataclass(frozen=True)
class Piece:
    """Bytes [begin, begin + size) of a tensor, which lie at `offset` of the bucket."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    size: int
    offset: int


class SharedMemoryTransfer:
    """One process's side; the methods are those of verl's CheckpointEngine, in the order in which it calls them."""

    def __init__(self, bucket_size: int, is_master: bool = False):
        """bucket_size: bytes. is_master: whether this is the trainer's rank 0, which sends."""
        if bucket_size < 1:
            raise ValueError(f"bucket_size={bucket_size}: must be at least 1 byte")
        self.bucket_size = bucket_size
        self.is_master = is_master
        self._scratch: Scratch | None = None
        self._listener: socket.socket | None = None
        self._bucket: torch.Tensor | None = None  # (bucket_size,) uint8
        self._connections: list[socket.socket] = []

    def prepare(self) -> dict[str, str]:
        """Where this process is; the sender's also says at which socket it waits, `address`."""
        self.finalize()
        here = {"node": os.uname().nodename}
        if not self.is_master:
            return here
        self._scratch = Scratch("weights")
        address = str(self._scratch.path / "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(128)
        return {**here, "address": address}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, str]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Arguments of init_process_group, a list over the trainer's ranks and one over the rollouts' workers.

        metadata: what prepare returned, the trainer's ranks first. Raises RuntimeError where a rollout is elsewhere.
        """
        sender, rollouts = metadata[0], metadata[actor_wg_world_size:]
        if elsewhere := sorted({each["node"] for each in rollouts} - {sender["node"]}):
            raise RuntimeError(
                f"the trainer's rank 0 is on {sender['node']}, rollouts on {', '.join(elsewhere)}: shared memory "
                "carries weights within one machine"
            )

        def arguments(roles: list[str]) -> dict[str, list[Any]]:
            same = {"address": sender["address"], "receivers": rollout_world_size}
            return {"role": roles, **{name: [value] * len(roles) for name, value in same.items()}}

        return arguments(["send"] + ["gather"] * (actor_wg_world_size - 1)), arguments(["receive"] * rollout_world_size)

    def init_process_group(self, role: str, address: str, receivers: int) -> None:
        """Connect the sender with all receivers, and hand them the bucket.

        role: send, receive, or gather, for the trainer's other ranks. Raises TimeoutError after PATIENCE seconds.
        """
        if role == "send":
            self._invite(receivers)
        elif role == "receive":
            self._join(address)

    def _invite(self, receivers: int) -> None:
        assert self._listener is not None, "prepare comes first"
        memory = os.memfd_create("rpg-weights")
        try:
            os.ftruncate(memory, self.bucket_size)
            self._bucket = _mapped(memory, self.bucket_size)
            until = time.monotonic() + PATIENCE
            while len(self._connections) < receivers:
                self._listener.settimeout(max(until - time.monotonic(), 0.001))
                try:
                    connection, _ = self._listener.accept()
                except TimeoutError:
                    found = f"{len(self._connections)} of {receivers} workers of rollouts"
                    raise TimeoutError(f"{found} came for the weights within {PATIENCE:.0f} s") from None
                socket.send_fds(connection, [_LENGTH.pack(self.bucket_size)], [memory])
                connection.setblocking(False)
                self._connections.append(connection)
        finally:
            os.close(memory)
            self._stop_listening()
            if len(self._connections) < receivers:
                self.finalize()

    def _join(self, address: str) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        self._connections.append(connection)
        try:
            connection.connect(address)
            size, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
        except TimeoutError:
            raise TimeoutError(f"the trainer, at {address}, gave no bucket within {PATIENCE:.0f} s") from None
        if not descriptors:
            raise ConnectionEnded(f"{_peer(connection)}, the trainer, ended the connection before it gave the bucket")
        (memory,) = descriptors
        try:
            self._bucket = _mapped(memory, *_LENGTH.unpack(size))
        finally:
            os.close(memory)
        connection.setblocking(False)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._scratch is not None:
            self._scratch.remove()
        self._listener = self._scratch = None

    def finalize(self) -> None:
        """Give up connections and bucket; once more changes nothing."""
        self._stop_listening()
        for connection in self._connections:
            connection.close()
        self._connections = []
        self._bucket = None

    @torch.no_grad()
    async def send_weights(self, weights: Iterator[tuple[str, torch.Tensor]], global_steps: int | None = None) -> None:
        """Send all of (name, tensor) to the rollouts; a rank other than 0 only takes its part in gathering them.

        Raises ConnectionEnded where a rollout is gone. The other ranks gather on meanwhile, so it is raised at the end.
        """
        if not self.is_master:
            for _ in weights:
                pass
            return
        moved = False
        try:
            for pieces, last in _filled(weights, self._held_bucket()):
                await self._tell({"pieces": [asdict(piece) for piece in pieces], "last": last})
                for connection in self._connections:
                    await _exactly(connection, len(COPIED))
            moved = True
        except ConnectionEnded:
            for _ in weights:
                pass
            raise
        except Exception as error:
            with suppress(ConnectionEnded):  # the reason is what is to be known
                await self._tell({"failed": f"{type(error).__name__}: {error}"})
            raise
        finally:
            if not moved:
                self.finalize()

    async def receive_weights(self, global_steps: int | None = None) -> AsyncGenerator[tuple[str, torch.Tensor], None]:
        """All weights as (name, tensor), each tensor the caller's to keep.

        Raises ConnectionEnded where the trainer is gone or says that it failed.
        """
        bucket, (connection,) = self._held_bucket(), self._connections
        tensor, last = torch.empty(0), False
        try:
            while not last:
                message = await _message(connection)
                if "failed" in message:
                    raise ConnectionEnded(f"{_peer(connection)}, the trainer, failed: {message['failed']}")
                for piece in (Piece(**fields) for fields in message["pieces"]):
                    if piece.begin == 0:
                        tensor = torch.empty(piece.shape, dtype=getattr(torch, piece.dtype))
                    end = piece.begin + piece.size
                    _bytes(tensor)[piece.begin : end] = bucket[piece.offset : piece.offset + piece.size]
                    if end == tensor.nbytes:
                        yield piece.name, tensor
                last = message["last"]
                await _sendall(connection, COPIED)
        finally:
            if not last:  # the trainer then knows
                self.finalize()

    def _held_bucket(self) -> torch.Tensor:
        if self._bucket is None:
            raise RuntimeError("no weights can be moved: init_process_group comes first, and once for each time")
        return self._bucket

    async def _tell(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        for connection in self._connections:
            await _sendall(connection, _LENGTH.pack(len(body)) + body)


def _filled(weights: Iterator[tuple[str, torch.Tensor]], bucket: torch.Tensor) -> Iterator[tuple[list[Piece], bool]]:
    """Fill the bucket with weights again and again: what is in it, and whether nothing comes after it."""
    pieces: list[Piece] = []
    offset = 0
    for name, weight in weights:
        source, begin = _bytes(weight.detach().contiguous()), 0
        while True:
            size = min(len(source) - begin, len(bucket) - offset)
            bucket[offset : offset + size] = source[begin : begin + size]
            dtype = str(weight.dtype).removeprefix("torch.")
            pieces.append(Piece(name, dtype, tuple(weight.shape), begin, size, offset))
            offset, begin = offset + size, begin + size
            if offset == len(bucket):
                yield pieces, False
                pieces, offset = [], 0
            if begin == len(source):
                break
    yield pieces, True


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor, (nbytes,) uint8, in its own memory."""
    return tensor.view(-1).view(torch.uint8)


def _mapped(memory: int, size: int) -> torch.Tensor:
    """Shared memory as (size,) uint8; unmapped when the tensor is gone."""
    return torch.frombuffer(mmap.mmap(memory, size), dtype=torch.uint8)


def _peer(connection: socket.socket) -> str:
    """The process at the other end, which may be dead."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return f"process {_CREDENTIALS.unpack(credentials)[0]}"


async def _message(connection: socket.socket) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(await _exactly(connection, _LENGTH.size))
    return json.loads(await _exactly(connection, length))


async def _exactly(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        try:
            some = await asyncio.get_running_loop().sock_recv(connection, length - len(received))
        except ConnectionError:
            some = b""
        if not some:
            raise ConnectionEnded(_ended(connection))
        received += some
    return received


async def _sendall(connection: socket.socket, data: bytes) -> None:
    try:
        await asyncio.get_running_loop().sock_sendall(connection, data)
    except ConnectionError:
        raise ConnectionEnded(_ended(connection)) from None


def _ended(connection: socket.socket) -> str:
    return f"{_peer(connection)} ended the connection before all weights were moved; it was killed, or says why itself"
