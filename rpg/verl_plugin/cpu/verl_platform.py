"""The platform `cpu` for verl 0.9.1, and what else verl lacks there.

- verl has platforms for CUDA, NPU and others only; ours is that of CUDA with a device module that answers on a host.
- Its process-group backend is `gloo`: torch refuses the "cpu:gloo,cpu:gloo" that verl builds.
- Parameters offloaded to host memory are not pinned, which needs a device.
- VERL_ENGINE_DEVICE=cuda, verl's own switch: its FSDP engines are registered for cuda and npu only, and the cuda ones
  run on a CPU.
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

NAME = "cpu"


def _peak_memory(device: Any = None) -> int:
    """Peak resident memory of this process in bytes, the nearest figure to a device allocator's."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory_info(device: Any = None) -> tuple[int, int]:
    """(available, total) host memory in bytes, in the order of torch.cuda.mem_get_info."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A CPU has no device memory to free, and no allocator to set."""


def _device_module() -> types.ModuleType:
    """torch.cpu with what verl asks of torch.cuda: memory figures, caches, RNG state, device name."""
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
        return torch.device(NAME)  # verl uses the answer as a torch device

    def communication_backend_name(self) -> str:
        return "gloo"

    def is_ipc_supported(self) -> bool:
        return False  # verl then hands weights to vLLM through shared memory


class _UnpinnedOffload(fsdp.CPUOffloadPolicy):
    """FSDP2's policy for parameters in host memory, never pinned."""

    def __init__(self, pin_memory: bool = False):
        super().__init__(pin_memory=False)


def register() -> None:
    """Register the platform with verl and replace the two defaults named above; safe to call more than once."""
    import verl.utils.distributed as distributed

    PlatformRegistry.register(platform=NAME)(CpuPlatform)
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    fsdp.CPUOffloadPolicy = _UnpinnedOffload  # type: ignore[misc]
    original = distributed.initialize_global_process_group_ray
    if not isinstance(original, functools.partial):  # a partial is ours
        distributed.initialize_global_process_group_ray = functools.partial(original, backend="gloo")
