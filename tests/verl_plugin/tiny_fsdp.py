"""A tiny language model under FSDP2 over gloo, for tests of its shards, without Ray and vLLM."""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import forkserver

import pytest
import torch
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCABULARY, WIDTH = 11, 6  # neither is even: with two ranks the shards differ in size


@contextmanager
def process_group(rank: int = 0, world_size: int = 1, meeting: str | None = None, backend: str = "gloo"):
    """Make this process a rank of a group with a file rendezvous."""
    with tempfile.TemporaryDirectory() as own:
        store = torch.distributed.FileStore(meeting or f"{own}/meeting", world_size)
        torch.distributed.init_process_group(
            backend, store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=300)
        )
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


def _rank(
    rank: int, world_size: int, meeting: str, environment: dict[str, str], function: Callable, arguments: tuple
) -> None:
    os.environ.update(environment)  # the fork server may be older than what a test has set
    torch.set_num_threads(1)
    with process_group(rank, world_size, meeting):
        function(*arguments)


def on_ranks(world_size: int, function: Callable, *arguments, engines: bool = False) -> None:
    """Run function(*arguments) in world_size new processes that form a group; raise if one fails.

    They are forked from one process that has imported torch and the test, and with `engines` verl's engines, unless an
    earlier test of this session has started it.
    """
    multiprocessing.set_forkserver_preload([function.__module__, *(["rpg.verl_plugin.worker"] if engines else [])])
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.11's fork server ignores the sys.path that it is given, and then a failed import
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("VERL_PLATFORM", "cpu")  # which verl's engines read when they are imported
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(
            _rank,
            (world_size, f"{directory}/meeting", dict(os.environ), function, arguments),
            nprocs=world_size,
            start_method="forkserver",
        )


def unsharded() -> torch.nn.Module:
    """Return the model, equal in every process."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
    )


def build() -> torch.nn.Module:
    """Return the model sharded over the ranks."""
    model = unsharded()
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    fully_shard(model[1], mesh=mesh)
    return fully_shard(model, mesh=mesh)
