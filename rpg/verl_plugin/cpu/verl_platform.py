"""The platform `cpu` for verl 0.9.1.

- verl has platforms for CUDA, NPU and others only; this one is CUDA's with a device module for a host.
- Its process-group backend is `gloo`: torch rejects the "cpu:gloo,cpu:gloo" that verl builds.
- Parameters offloaded to host memory are not pinned, because pinning needs a device.
- It sets verl's switch VERL_ENGINE_DEVICE=cuda: verl's FSDP engines are registered for cuda and npu only, and the cuda
  engines run on a CPU.
"""

import functools
import os
import resource
import types
from typing import Any

import torch
import torch.distributed.fsdp as fsdp
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.utils import distributed

NAME = "cpu"
_with_any_backend = distributed.initialize_global_process_group_ray


def _peak_memory(device: Any = None) -> int:
    """Return this process's peak resident memory in bytes, in place of a device allocator's peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory_info(device: Any = None) -> tuple[int, int]:
    """Return (available, total) host memory in bytes, like torch.cuda.mem_get_info."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing: a CPU has no device memory and no allocator to set."""


def _device_module() -> types.ModuleType:
    """Return torch.cpu with the functions of torch.cuda that verl uses: memory, caches, RNG state, device name."""
    module = types.ModuleType("rpg.verl_plugin.cpu.device_module")
    module.__dict__.update({name: getattr(torch.cpu, name) for name in torch.cpu.__all__})
    memory = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    module.__dict__.update(dict.fromkeys(memory, _peak_memory))
    module.__dict__.update(dict.fromkeys(("empty_cache", "ipc_collect"), _nothing))
    module.__dict__.update(
        mem_get_info=_memory_info,
        get_device_name=lambda: NAME,
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
    )
    return module


class CpuPlatform(PlatformCUDA):
    """verl's platform interface for a host CPU; one Ray "GPU" (ray_kwargs.ray_init.num_gpus) is one logical rank."""

    device_name = vendor_name = NAME  # type: ignore[assignment]
    device_module = _device_module()  # type: ignore[assignment]
    set_allocator_settings = _nothing  # type: ignore[assignment]

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return torch.device(NAME)  # verl uses the result as a torch device

    def communication_backend_name(self) -> str:
        return "gloo"

    def is_ipc_supported(self) -> bool:
        return False  # verl then passes weights to vLLM through shared memory


class _UnpinnedOffload(fsdp.CPUOffloadPolicy):
    """FSDP2's offload policy without pinned memory."""

    def __init__(self, pin_memory: bool = False):
        super().__init__(pin_memory=False)


def register() -> None:
    """Register the platform with verl and replace the defaults named above; safe to call more than once."""
    if PlatformRegistry.get(NAME) is not CpuPlatform:  # verl logs a second registration on the terminal
        PlatformRegistry.register(platform=NAME)(CpuPlatform)
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    fsdp.CPUOffloadPolicy = _UnpinnedOffload  # type: ignore[misc]
    distributed.initialize_global_process_group_ray = functools.partial(_with_any_backend, backend="gloo")
