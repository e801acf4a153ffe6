"""Weights from one process to others through shared memory: all bits, any bucket, no waiting for a side that is gone.

Each side is a process of its own and does what verl's CheckpointEngineManager asks of it, in that order.
"""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rpg.verl_plugin.cpu import shared_memory
from rpg.verl_plugin.cpu.shared_memory import ConnectionEnded, SharedMemoryTransfer

LIMIT = 120  # seconds that only a side passes that waits for ever
TENSOR = 4 * 33 * 7  # bytes of the largest tensor below


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Every dtype and shape that may come: odd sizes, none, a scalar, a view with holes; NaN and -0 keep their bits."""
    random = torch.Generator().manual_seed(seed)
    wide = torch.randn(33, 14, generator=random)
    special = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    return {
        "float32": torch.randn(33, 7, generator=random),
        "bfloat16": torch.randn(5, 3, 7, generator=random).bfloat16(),
        "float16": torch.randn(1, generator=random).half(),
        "uint8": torch.randint(256, (3,), generator=random, dtype=torch.uint8),
        "special": special,
        "special in bfloat16": special.bfloat16(),
        "scalar": torch.randn((), generator=random, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "every other column": wide[:, ::2],
        "transposed": wide[:, :3].T,
        "flags": torch.randint(2, (9,), generator=random, dtype=torch.uint8).bool(),
    }


def bits(tensor: torch.Tensor) -> tuple[str, list[int], bytes]:
    flat = tensor.contiguous().view(-1).view(torch.uint8)
    return str(tensor.dtype), list(tensor.shape), bytes(flat.tolist())


class Side:
    """A process that has one transfer, carries out its methods and answers with what they return or raise."""

    def __init__(self, bucket_size: int, is_master: bool):
        fork = multiprocessing.get_context("forkserver")
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=serve, args=(theirs, bucket_size, is_master), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, method: str, *arguments: Any, **named: Any) -> None:
        self.pipe.send((method, arguments, named))

    def answer(self) -> Any:
        assert self.pipe.poll(LIMIT), "it waits"
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def serve(pipe: Any, bucket_size: int, is_master: bool) -> None:
    torch.set_num_threads(1)
    transfer = SharedMemoryTransfer(bucket_size, is_master)
    while True:
        method, arguments, named = pipe.recv()
        try:
            own = {"send": send, "receive": receive, "open_files": open_files}
            pipe.send(
                own[method](transfer, *arguments) if method in own else getattr(transfer, method)(*arguments, **named)
            )
        except Exception as error:  # noqa: BLE001 - the test looks at it
            pipe.send(error)


def open_files(transfer: SharedMemoryTransfer) -> list[str]:
    """This process's files, for those that the transfer left open."""
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            names.append(os.readlink(entry))
        except FileNotFoundError:  # of the listing
            continue
    return [name for name in names if "rpg-weights" in name]


def send(transfer: SharedMemoryTransfer, seed: int, fault: str = "") -> int:
    """Send weights(seed); returns how many were asked for. fault: at the third of them."""
    asked = 0

    def gathered() -> Iterator[tuple[str, torch.Tensor]]:
        nonlocal asked
        for asked, (name, tensor) in enumerate(weights(seed).items(), 1):
            if asked == 3 and fault == "raise":
                raise ValueError("no such shard")
            if asked == 3 and fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            yield name, tensor

    try:
        asyncio.run(transfer.send_weights(gathered(), global_steps=seed))
    except ConnectionEnded as error:
        raise ConnectionEnded(f"{error} [{asked}]") from None
    return asked


def receive(transfer: SharedMemoryTransfer, fault: str = "") -> list[tuple[str, tuple]]:
    """Names and bits of what comes, looked at when all of it is there. fault: at the third of them."""

    async def take() -> list[tuple[str, torch.Tensor]]:
        taken = []
        async for name, tensor in transfer.receive_weights(global_steps=0):
            if len(taken) == 2 and fault == "raise":
                raise ValueError("no room for it")
            if len(taken) == 2 and fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            taken.append((name, tensor))
        return taken

    return [(name, bits(tensor)) for name, tensor in asyncio.run(take())]


@pytest.fixture
def sides() -> Iterator[Callable]:
    """Make a sender, gatherers and receivers; what is left of them is killed."""
    multiprocessing.set_forkserver_preload(["pytest", "rpg.verl_plugin.cpu.shared_memory"])
    made: list[Side] = []

    def make(bucket_size: int, gatherers: int = 0, receivers: int = 1) -> list[Side]:
        made.extend(Side(bucket_size, is_master=number == 0) for number in range(1 + gatherers + receivers))
        return made

    yield make
    for side in made:
        side.process.kill()
        side.process.join()


def connect(sides: list[Side], gatherers: int = 0) -> str:
    """What the manager does before weights move; returns the socket's address."""
    for side in sides:
        side.ask("prepare")
    metadata = [side.answer() for side in sides]
    ranks = 1 + gatherers
    trainer, rollouts = SharedMemoryTransfer.build_topology(ranks, len(sides) - ranks, metadata)
    for arguments, group in ((trainer, sides[:ranks]), (rollouts, sides[ranks:])):
        assert {len(values) for values in arguments.values()} == {len(group)}
        for number, side in enumerate(group):
            side.ask("init_process_group", **{name: values[number] for name, values in arguments.items()})
    for side in sides:
        side.answer()
    return metadata[0]["address"]


def finalize(sides: list[Side]) -> None:
    for side in sides:
        side.ask("finalize")
    for side in sides:
        side.answer()
        side.ask("open_files")
        assert side.answer() == []


@pytest.mark.slow
@pytest.mark.parametrize("bucket_size", [13, TENSOR, 1 << 20], ids=["small", "a tensor", "more than all"])
def test_all_bits_arrive_time_after_time(sides, bucket_size):
    """Two receivers and a trainer's second rank, three times over the same objects, as a run does after each step."""
    sender, gatherer, *receivers = everyone = sides(bucket_size, gatherers=1, receivers=2)
    for seed in range(3):
        address = connect(everyone, gatherers=1)
        assert not Path(address).parent.exists()  # nobody else finds it
        sender.ask("send", seed)
        gatherer.ask("send", seed)
        for receiver in receivers:
            receiver.ask("receive")
        expected = [(name, bits(tensor)) for name, tensor in weights(seed).items()]
        assert [receiver.answer() for receiver in receivers] == [expected, expected]
        assert sender.answer() == gatherer.answer() == len(expected)
        finalize(everyone)


@pytest.mark.parametrize("fault", ["raise", "die"])
def test_a_sender_that_fails(sides, fault):
    """Each receiver names it."""
    sender, *receivers = sides(97, receivers=2)
    connect([sender, *receivers])
    sender.ask("send", 0, fault)
    for receiver in receivers:
        receiver.ask("receive")
    for receiver in receivers:
        with pytest.raises(ConnectionEnded, match=f"process {sender.process.pid}"):
            receiver.answer()
    if fault == "raise":
        with pytest.raises(ValueError, match="no such shard"):
            sender.answer()


@pytest.mark.parametrize("fault", ["raise", "die"])
def test_a_receiver_that_fails(sides, fault):
    """The sender names it, and has asked for all weights: the trainer's other ranks gather each of them with it."""
    sender, first, second = sides(97, receivers=2)
    connect([sender, first, second])
    sender.ask("send", 0)
    first.ask("receive")
    second.ask("receive", fault)
    with pytest.raises(ConnectionEnded, match=f"process {second.process.pid} .*{len(weights())}"):
        sender.answer()
    with pytest.raises(ConnectionEnded, match=f"process {sender.process.pid}"):
        first.answer()


def test_a_receiver_that_never_comes(monkeypatch):
    monkeypatch.setattr(shared_memory, "PATIENCE", 0.2)
    sender = SharedMemoryTransfer(64, is_master=True)
    address = sender.prepare()["address"]
    with pytest.raises(TimeoutError, match="0 of 2 workers"):
        sender.init_process_group(role="send", address=address, receivers=2)
    assert not Path(address).parent.exists()


def test_rollouts_on_another_machine_are_refused():
    here, there = {"node": "a", "address": "/s"}, {"node": "b"}
    with pytest.raises(RuntimeError, match="rank 0 is on a, rollouts on b"):
        SharedMemoryTransfer.build_topology(1, 2, [here, {"node": "a"}, there])
    trainer, _ = SharedMemoryTransfer.build_topology(2, 1, [here, there, {"node": "a"}])  # which only gathers
    assert trainer["role"] == ["send", "gather"]
