"""Checks of a machine with GPUs beside their number: driver, build tools, /dev/shm, limits."""

import math
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from rpg.config import gpu_host
from rpg.config.check import check
from rpg.config.run_config import RunConfig
from rpg.data.diagnostics import ABSENT, Diagnostic


def _on_own_gpus(run: RunConfig) -> bool:
    """Whether the run computes on GPUs of this machine, not of a cluster."""
    return not run.cluster and run.get("trainer.device") == "cuda"


@check("GPU driver", "the NVIDIA driver supports the CUDA of torch", subject="machine")
def gpu_driver(run: RunConfig) -> Iterator[Diagnostic]:
    """NVML counts GPUs under any driver; torch would fail at the first use of one. Says nothing without nvidia-smi."""
    import torch

    if _on_own_gpus(run) and torch.version.hip is None:
        cuda = int((torch.version.cuda or str(gpu_host.CUDA)).partition(".")[0])
        if old := gpu_host.old_driver(cuda):
            yield Diagnostic("NVIDIA driver", old[0], old[1], gpu_host.UPDATE)


@check("build tools", "Triton finds Python.h and a C compiler for a run on GPUs", subject="machine")
def build_tools(run: RunConfig) -> Iterator[Diagnostic]:
    """vLLM, flash-attn's cross-entropy and torch.compile use Triton, which compiles a launcher for its kernels."""
    if _on_own_gpus(run):
        for name, wrong, remedy in gpu_host.build_tools():
            yield Diagnostic(name, ABSENT, wrong, remedy)


SHARED_MEMORY = 2**30  # bytes; NCCL's documentation asks for 1 GB in a container
QUEUE = 160 * 2**20  # bytes: the queue of vLLM's engine to its workers (10 chunks of 16 MiB)


@check("shared memory", "/dev/shm has space for NCCL, data loaders and vLLM's queues on GPUs", subject="machine")
def shared_memory(run: RunConfig) -> Iterator[Diagnostic]:
    """A process that writes beyond /dev/shm is killed without a message; Ray only moves its objects to a disk.

    For a CPU the check "weight bucket" asks for what is written there.
    """
    if not _on_own_gpus(run):
        return
    need, free = SHARED_MEMORY + run.get("trainer.n_gpus_per_node") * QUEUE, shutil.disk_usage("/dev/shm").free
    if free < need:
        wrong = f"has {free / 1e6:.0f} MB free, and NCCL, data loaders and vLLM need {need / 1e6:.0f}"
        remedy = "docker run --shm-size=16g (or --ipc=host); on a host, mount -o remount,size=16g /dev/shm"
        yield Diagnostic("/dev/shm", ABSENT, wrong, remedy)


FILES = 4096  # below, Ray warns of connection errors
RAYS_FILES = 65536  # Ray raises the soft limit to this, if the hard limit allows
PROCESSES = 4096  # processes and threads of Ray, its workers and vLLM on one node; assumed


@check("limits", "open files, processes and address space (ulimit) suffice for Ray and vLLM on GPUs", subject="machine")
def limits(run: RunConfig) -> Iterator[Diagnostic]:
    """The soft limits, after Ray has raised that of open files."""
    if not _on_own_gpus(run):
        return
    soft, hard = (_count(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if max(soft, min(hard, RAYS_FILES)) < FILES:
        wrong = f"open files (hard limit {hard:.0f}); Ray needs {FILES} or more"
        remedy = "docker run --ulimit nofile=65536, or raise nofile in limits.conf"
        yield Diagnostic("ulimit -n", int(soft), wrong, remedy)
    count = _count(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    if count < PROCESSES and os.geteuid():  # root has no such limit
        wrong = f"processes and threads; Ray and vLLM can need {PROCESSES}"
        yield Diagnostic("ulimit -u", int(count), wrong, "ulimit -u 65536, or raise nproc in limits.conf", "warning")
    pids = Path("/sys/fs/cgroup/pids.max")
    text = pids.read_text().strip() if pids.is_file() else "max"
    if text.isdecimal() and int(text) < PROCESSES:
        wrong = f"processes and threads of this container; Ray and vLLM can need {PROCESSES}"
        yield Diagnostic(str(pids), int(text), wrong, "docker run --pids-limit=-1", "warning")
    if (space := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        wrong = "KiB of address space; CUDA reserves more than the memory of host and GPUs"
        yield Diagnostic("ulimit -v", space // 1024, wrong, "ulimit -v unlimited")


def _count(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit


def of_this_machine() -> Iterator[Diagnostic]:
    """Run these checks for one GPU without a run's configuration, if torch is built for CUDA."""
    import torch

    if torch.version.cuda is not None:
        run = RunConfig({"trainer": {"device": "cuda", "n_gpus_per_node": 1}})
        for machine_check in (gpu_driver, build_tools, shared_memory, limits):
            yield from machine_check(run)
