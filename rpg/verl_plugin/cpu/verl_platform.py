"""The platform `cpu` for verl 0.9.1.

verl has platforms for CUDA, NPU and others only. What is added here:

- a platform class, with a device module that answers verl's memory queries;
- the process-group backend `gloo`: torch refuses the "cpu:gloo,cpu:gloo" that verl builds;
- parameters offloaded to host memory are not pinned, which needs a device;
- VERL_ENGINE_DEVICE=cuda, verl's own switch: its FSDP engines are registered for cuda and npu only, and the cuda ones
  run on a CPU.
"""

import functools
import os
import resource
import types
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed.fsdp as fsdp
from verl.plugin.platform.platform_base import PlatformBase
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
    """A CPU has no device memory to free, no allocator to set and no profiler."""


def _device_module() -> types.ModuleType:
    """torch.cpu with what verl asks of torch.cuda: memory figures, caches, RNG state, device name."""
    module = types.ModuleType("rpg.verl_plugin.cpu.device_module")
    module.__dict__.update({name: getattr(torch.cpu, name) for name in torch.cpu.__all__})
    memory = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    module.__dict__.update(dict.fromkeys(memory, _peak_memory))
    ignored = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "synchronize", "set_device")
    module.__dict__.update(dict.fromkeys(ignored, _nothing))
    module.__dict__.update(
        mem_get_info=_memory_info,
        get_device_name=lambda device=None: NAME,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
    )
    return module


_DEVICE_MODULE = _device_module()


class CpuPlatform(PlatformBase):
    """verl's platform interface for a host CPU; one Ray "GPU" (ray_kwargs.ray_init.num_gpus) is one logical rank."""

    @property
    def device_name(self) -> str:
        return NAME

    @property
    def vendor_name(self) -> str:
        return NAME

    @property
    def device_module(self) -> types.ModuleType:
        return _DEVICE_MODULE

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return os.environ.get("VERL_PLATFORM", "").strip().lower() == NAME  # verl's auto-detection never selects it

    def current_device(self) -> Any:
        return torch.device(NAME)  # verl uses the answer as a torch device

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"  # the variable that Ray sets for its resource "GPU"

    @contextmanager
    def nvtx_range(self, msg: str):
        yield

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False  # verl then hands weights to vLLM through shared memory

    set_device = synchronize = set_allocator_settings = empty_cache = _nothing  # type: ignore[assignment]
    profiler_start = profiler_stop = cudart = _nothing  # type: ignore[assignment]


class _UnpinnedOffload(fsdp.CPUOffloadPolicy):
    """FSDP2's policy for parameters in host memory, never pinned."""

    def __init__(self, pin_memory: bool = False):
        super().__init__(pin_memory=False)


def register() -> None:
    """Register the platform with verl and replace the two defaults named above; safe to call more than once."""
    import verl.utils.distributed as distributed

    if PlatformRegistry.get(NAME) is None:
        PlatformRegistry.register(platform=NAME)(CpuPlatform)
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    fsdp.CPUOffloadPolicy = _UnpinnedOffload  # type: ignore[misc]
    original = distributed.initialize_global_process_group_ray
    if not isinstance(original, functools.partial):  # a partial is ours
        distributed.initialize_global_process_group_ray = functools.partial(original, backend="gloo")
