"""Checks of the machine: devices, driver, build tools, /dev/shm."""

import os
import shutil

from rpg import gpu_host
from rpg.checks.packages import cpu_torch
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Findings


def devices(run: RunConfig) -> Findings:
    """The machine, or the Ray that the run starts, has the GPUs; several nodes need a cluster.

    verl checks a cluster's devices after submission.
    """
    s = run.settings
    if run.cluster:
        yield s.finding("gpus", "verl checks the cluster's devices", "", "skip")
        return
    if s.nodes > 1:
        message = "needs a cluster, but this run starts its own Ray"
        yield s.error("nodes", message, "set RAY_ADDRESS, or NNODES=1")
        return
    present, place = s.ray_gpus, f"{KEYS['ray_gpus']} is"
    remedy = f"set {KEYS['ray_gpus']} to {s.gpus + s.rollout_devices}"
    if present is None:
        import torch

        if cpu_torch(run):  # a CPU build sees no GPU on any machine
            return
        present, place = torch.cuda.device_count(), "this machine has"
        remedy = f"set {KEYS['gpus']}, set RAY_ADDRESS to a cluster that has them, or use profile=cpu"
    if present < s.gpus + s.rollout_devices:
        more = f"and {s.rollout_devices} for the rollouts ({KEYS['rollout_gpus']}): " if s.rollout_devices else ""
        yield s.error("gpus", f"{more}{place} {present}", remedy)


def directory_name(run: RunConfig) -> Findings:
    """The name of an output directory has no variable, which Ray would expand."""
    s = run.settings
    for name in ("directory", "samples_dir"):
        path = getattr(s, name)
        if path is not None and os.path.expandvars(path) != path:
            message = f"Ray would read it as {os.path.expandvars(path)}"
            yield s.error(name, message, "use a directory without $ in its name (CKPTS_DIR)")


def _on_own_gpus(run: RunConfig) -> bool:
    """Whether the run computes on GPUs of this machine, not of a cluster."""
    return not run.cluster and run.settings.device == "cuda"


def gpu_driver(run: RunConfig) -> Findings:
    """The NVIDIA driver supports the CUDA of torch.

    NVML counts GPUs under any driver; torch would fail at the first use of one. Says nothing without nvidia-smi.
    """
    import torch

    if _on_own_gpus(run) and torch.version.hip is None:
        cuda = int((torch.version.cuda or str(gpu_host.CUDA)).partition(".")[0])
        if old := gpu_host.old_driver(cuda):
            yield Diagnostic("NVIDIA driver", old[0], old[1], gpu_host.UPDATE)


def build_tools(run: RunConfig) -> Findings:
    """Triton finds Python.h and a C compiler for a run on GPUs.

    vLLM, flash-attn's cross-entropy and torch.compile use Triton, which compiles a launcher for its kernels.
    """
    if _on_own_gpus(run):
        for name, message, remedy in gpu_host.build_tools():
            yield Diagnostic(name, ABSENT, message, remedy)


SHARED_MEMORY = 2**30  # bytes; NCCL's documentation asks for 1 GB in a container
QUEUE = 160 * 2**20  # bytes: the queue of vLLM's engine to its workers (10 chunks of 16 MiB)


def shared_memory(run: RunConfig) -> Findings:
    """/dev/shm has space for NCCL, data loaders and vLLM's queues on GPUs.

    A process that writes beyond /dev/shm is killed without a message; Ray only moves its objects to a disk.

    For a CPU the check weight_bucket asks for what is written there.
    """
    if not _on_own_gpus(run):
        return
    need, free = SHARED_MEMORY + run.settings.gpus * QUEUE, shutil.disk_usage("/dev/shm").free
    if free < need:
        message = f"has {free / 1e6:.0f} MB free, and NCCL, data loaders and vLLM need {need / 1e6:.0f}"
        remedy = "docker run --shm-size=16g (or --ipc=host); on a host, mount -o remount,size=16g /dev/shm"
        yield Diagnostic("/dev/shm", ABSENT, message, remedy)
