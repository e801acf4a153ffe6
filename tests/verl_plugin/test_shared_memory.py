"""Weights from one side to others through shared memory: all bits, any bucket, no waiting for a side that is gone.

The sides are threads that do what verl's CheckpointEngineManager asks, in that order; test_separate.py has processes.
"""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from rpg.verl_plugin.cpu import shared_memory
from rpg.verl_plugin.cpu.shared_memory import ConnectionEnded, SharedMemoryTransfer

RANKS = 2  # of the trainer: one sends, the other one only gathers
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


def send(transfer: SharedMemoryTransfer, seed: int, fails: bool) -> int:
    """Send weights(seed), or fail at the third of them; returns how many were asked for."""
    asked = 0

    def gathered() -> Iterator[tuple[str, torch.Tensor]]:
        nonlocal asked
        for asked, (name, tensor) in enumerate(weights(seed).items(), 1):
            if asked == 3 and fails:
                raise ValueError("no such shard")
            yield name, tensor

    try:
        asyncio.run(transfer.send_weights(gathered(), global_steps=seed))
    except ConnectionEnded as error:
        raise ConnectionEnded(f"{error} [{asked}]") from None
    return asked


def receive(transfer: SharedMemoryTransfer, seed: int, fails: bool) -> list[tuple[str, tuple]]:
    """Names and bits of what comes, looked at when all of it is there."""

    async def take() -> list[tuple[str, torch.Tensor]]:
        taken = []
        async for pair in transfer.receive_weights(global_steps=seed):
            if len(taken) == 2 and fails:
                raise ValueError("no such shard")
            taken.append(pair)
        return taken

    return [(name, bits(tensor)) for name, tensor in asyncio.run(take())]


def move(transfers: list[SharedMemoryTransfer], seed: int = 0, failing: int | None = None) -> list[Future]:
    """Weights from the first to the receivers, whose one side may fail; what each side ended with."""
    with ThreadPoolExecutor(len(transfers)) as pool:
        metadata = [transfer.prepare() for transfer in transfers]
        trainer, rollouts = SharedMemoryTransfer.build_topology(RANKS, len(transfers) - RANKS, metadata)
        arguments = [{name: values[n] for name, values in trainer.items()} for n in range(RANKS)]
        arguments += [{name: values[n] for name, values in rollouts.items()} for n in range(len(transfers) - RANKS)]
        list(pool.map(lambda transfer, named: transfer.init_process_group(**named), transfers, arguments))
        assert not Path(metadata[0]["address"]).parent.exists()  # nobody else finds it
        ended = [
            pool.submit(send if number < RANKS else receive, transfer, seed, number == failing)
            for number, transfer in enumerate(transfers)
        ]
    for transfer in transfers:
        transfer.finalize()
    return ended


def sides(bucket_size: int) -> list[SharedMemoryTransfer]:
    """A sender, a trainer's second rank, two receivers."""
    return [SharedMemoryTransfer(bucket_size, is_master=number == 0) for number in range(RANKS + 2)]


@pytest.mark.parametrize("bucket_size", [13, TENSOR, 1 << 20], ids=["small", "a tensor", "more than all"])
def test_all_bits_arrive_time_after_time(bucket_size):
    """Three times over the same objects, as a run does after each step; nothing stays open."""
    transfers = sides(bucket_size)
    for seed in range(3):
        expected = [(name, bits(tensor)) for name, tensor in weights(seed).items()]
        assert [one.result() for one in move(transfers, seed)] == [len(expected)] * RANKS + [expected] * 2
    files = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.exists()]
    assert not [name for name in files if "rpg-weights" in name]


def test_a_sender_that_fails():
    """Each receiver names its process."""
    sender, _, *receivers = move(sides(97), failing=0)
    assert isinstance(sender.exception(), ValueError)
    for receiver in receivers:
        assert isinstance(receiver.exception(), ConnectionEnded)
        assert f"process {os.getpid()}" in str(receiver.exception())


def test_a_receiver_that_fails():
    """The sender has asked for all weights: the trainer's other ranks gather each of them with it."""
    sender, gatherer, first, second = move(sides(97), failing=RANKS + 1)
    assert isinstance(sender.exception(), ConnectionEnded)
    assert str(sender.exception()).endswith(f"[{len(weights())}]")
    assert gatherer.result() == len(weights())
    assert isinstance(first.exception(), ConnectionEnded)
    assert isinstance(second.exception(), ValueError)


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
