"""Weight transfer through sockets: bit-exact, without waiting for a failed side.

The sides are threads that call the methods in the order of verl's CheckpointEngineManager; test_separate.py uses
processes.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch

from rpg.verl_plugin.cpu.checkpoint_engine import SocketCheckpointEngine

RANKS = 2  # of the trainer: one sends, the other one only gathers


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Return tensors of many dtypes and shapes: odd sizes, empty, scalar, non-contiguous; with NaN and -0."""
    random = torch.Generator().manual_seed(seed)
    wide = torch.randn(33, 14, generator=random)
    special = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    return {
        "float32": torch.randn(33, 7, generator=random),
        "special": special,
        "special in bfloat16": special.bfloat16(),
        "scalar": torch.randn((), generator=random, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "every other column": wide[:, ::2],
        "large": torch.randn(1000, 1000, generator=random),  # more than a socket holds
    }


def bits(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    return tensor.dtype, tensor.shape, tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def send(engine: SocketCheckpointEngine, seed: int, fails: bool) -> None:
    """Send weights(seed), or fail at the last one."""

    def gathered() -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in weights(seed).items():
            if name == "large" and fails:
                raise ValueError("no such shard")
            yield name, tensor

    asyncio.run(engine.send_weights(gathered(), global_steps=seed))


def receive(engine: SocketCheckpointEngine, seed: int, fails: bool) -> list[tuple[str, tuple]]:
    """Return names and bits of all received tensors, read at the end."""

    async def take() -> list[tuple[str, torch.Tensor]]:
        taken = []
        async for pair in engine.receive_weights(global_steps=seed):
            if len(taken) == 2 and fails:
                raise ValueError("no such shard")
            taken.append(pair)
        return taken

    return [(name, bits(tensor)) for name, tensor in asyncio.run(take())]


def engines() -> list[SocketCheckpointEngine]:
    """Return a sender, the trainer's second rank, and two receivers."""
    return [SocketCheckpointEngine(1 << 20, is_master=number == 0) for number in range(RANKS + 2)]


def move(engines: list[SocketCheckpointEngine], seed: int = 0, failing: int | None = None) -> list[Future]:
    """Transfer weights from the sender to the receivers, of which one may fail; return each side's result."""
    with ThreadPoolExecutor(len(engines)) as pool:
        metadata = [engine.prepare() for engine in engines]
        trainer, rollouts = SocketCheckpointEngine.build_topology(RANKS, len(engines) - RANKS, metadata)
        arguments = [{name: values[n] for name, values in trainer.items()} for n in range(RANKS)]
        arguments += [{name: values[n] for name, values in rollouts.items()} for n in range(len(engines) - RANKS)]
        list(pool.map(lambda engine, named: engine.init_process_group(**named), engines, arguments))
        assert not Path(metadata[0]["address"]).parent.exists()  # nobody else finds it
        ended = [
            pool.submit(send if number < RANKS else receive, engine, seed, number == failing)
            for number, engine in enumerate(engines)
        ]
    for engine in engines:
        engine.finalize()
    return ended


def test_all_bits_arrive_time_after_time():
    """Repeatedly with the same objects, as in a run after each step."""
    sides = engines()
    for seed in range(3):
        expected = [(name, bits(tensor)) for name, tensor in weights(seed).items()]
        assert [one.result() for one in move(sides, seed)] == [None] * RANKS + [expected] * 2


def test_a_sender_that_fails():
    sender, _, *receivers = move(engines(), failing=0)
    assert isinstance(sender.exception(), ValueError)
    assert [type(receiver.exception()) for receiver in receivers] == [EOFError, EOFError]


def test_a_receiver_that_fails():
    sender, _, first, second = move(engines(), failing=RANKS + 1)
    assert isinstance(sender.exception(), ConnectionError)
    assert isinstance(first.exception(), (EOFError, ConnectionError))
    assert isinstance(second.exception(), ValueError)
