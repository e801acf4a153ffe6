"""A cpu platform for verl 0.9.1, so that its real trainer, FSDP2 and vLLM run on a laptop.

Active only where VERL_PLATFORM=cpu asks for it; importing this module changes nothing. What verl
lacks for a cpu, and what is done here about each point:

- a platform class of that name (`CpuPlatform`), with a device module that answers verl's memory queries;
- torch refuses the process-group backend "cpu:gloo,cpu:gloo" that verl builds: it becomes "gloo";
- a reference model's parameters are kept in pinned memory, which exists beside a device only;
- the FSDP engines are registered for cuda and npu only: VERL_ENGINE_DEVICE, verl's own switch, names
  the cuda ones, which hold nothing that needs cuda;
- vLLM packs its linear weights after loading and drops the parameters, so the next weight
  synchronisation finds none (`vllm_plugin`, loaded by vLLM through `vllm.general_plugins`).
"""

import functools
import multiprocessing
import os
import resource
import types
from contextlib import contextmanager
from typing import Any

import torch

NAME = "cpu"
PRELOADED_PYTHON = "RPG_PRELOADED_PYTHON"  # path of rpg.preload's executable, set by rpg/launching


def requested() -> bool:
    """Whether this process was asked, by VERL_PLATFORM, to run on the cpu platform."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == NAME


def _peak_memory(device: Any = None) -> int:
    """Peak resident memory of this process in bytes: the nearest thing to a device's allocator figure."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory_info(device: Any = None) -> tuple[int, int]:
    """(available, total) host memory in bytes, in the order of torch.cuda.mem_get_info."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def _device_module() -> types.ModuleType:
    """torch.cpu with what verl asks of torch.cuda: memory figures, caches, RNG state, device name."""
    module = types.ModuleType("rpg.verl_plugin.cpu.device_module")
    module.__dict__.update({name: getattr(torch.cpu, name) for name in torch.cpu.__all__})

    def nothing(*args: Any, **kwargs: Any) -> None:
        """There is no device memory to free or to reset."""

    answers = {
        "memory_allocated": _peak_memory,
        "max_memory_allocated": _peak_memory,
        "memory_reserved": _peak_memory,
        "max_memory_reserved": _peak_memory,
        "mem_get_info": _memory_info,
        "empty_cache": nothing,
        "ipc_collect": nothing,
        "reset_peak_memory_stats": nothing,
        "synchronize": nothing,
        "set_device": nothing,
        "get_device_name": lambda device=None: NAME,
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    }
    module.__dict__.update(answers)
    return module


_DEVICE_MODULE = _device_module()


def _platform_class() -> type:
    """The platform class, made on demand: its base lives in verl, which a GPU run need not wait for."""
    from verl.plugin.platform.platform_base import PlatformBase

    class CpuPlatform(PlatformBase):
        """verl's platform interface answered by a host CPU; one Ray "GPU" is one logical rank."""

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
            return requested()  # never chosen by verl's auto-detection

        def current_device(self) -> Any:
            return torch.device(NAME)  # verl uses the answer as a torch device

        def device_count(self) -> int:
            return 1

        def set_device(self, device_index: int) -> None:
            """A process has one host."""

        def synchronize(self, device_index: int | None = None) -> None:
            """CPU kernels have finished when they return."""

        def manual_seed(self, seed: int) -> None:
            torch.manual_seed(seed)

        def manual_seed_all(self, seed: int) -> None:
            torch.manual_seed(seed)

        def set_allocator_settings(self, settings: str) -> None:
            """The host allocator has none of the CUDA allocator's settings."""

        def empty_cache(self) -> None:
            """Nothing is cached."""

        def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
            return None, None

        def communication_backend_name(self) -> str:
            return "gloo"

        def visible_devices_envvar(self) -> str:
            return "CUDA_VISIBLE_DEVICES"  # what Ray sets for its resource "GPU"

        @contextmanager
        def nvtx_range(self, msg: str):
            yield

        def profiler_start(self) -> None:
            """No device profiler."""

        def profiler_stop(self) -> None:
            """No device profiler."""

        def ray_resource_name(self) -> str:
            return "GPU"  # logical GPUs: ray_kwargs.ray_init.num_gpus

        def ray_noset_envvars(self) -> list[str]:
            return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

        def is_ipc_supported(self) -> bool:
            return False  # weights travel to vLLM through shared memory

        def cudart(self) -> None:
            return None

    return CpuPlatform


def _unpinned(policy: type) -> type:
    """FSDP2's policy for parameters on the host, with memory that is not pinned whatever is asked for."""

    class CPUOffloadPolicy(policy):
        def __init__(self, pin_memory: bool = False):
            super().__init__(pin_memory=False)

    return CPUOffloadPolicy


def register() -> None:
    """Register the platform and remove verl's obstacles to it. Call only where `requested()`; idempotent."""
    from verl.plugin.platform.platform_manager import PlatformRegistry

    if PlatformRegistry.get(NAME) is None:
        PlatformRegistry.register(platform=NAME)(_platform_class())
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")

    import torch.distributed.fsdp as fsdp
    import verl.utils.distributed as distributed

    if fsdp.CPUOffloadPolicy.__module__ != __name__:
        fsdp.CPUOffloadPolicy = _unpinned(fsdp.CPUOffloadPolicy)

    original = distributed.initialize_global_process_group_ray
    if not isinstance(original, functools.partial):  # a partial is ours: registered before
        distributed.initialize_global_process_group_ray = functools.partial(original, backend="gloo")


def vllm_plugin() -> None:
    """What vLLM calls in each of its processes (`vllm.general_plugins`); nothing without the cpu platform.

    Linear layers keep their parameters, so that weights can be updated. Where an import server runs (see
    rpg.preload), the engine's process is started through it.
    """
    if not requested():
        return
    from vllm.model_executor.layers import utils

    def plain(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear  # type: ignore[assignment]

    utils.dispatch_cpu_unquantized_gemm = plain
    preloaded = os.environ.get(PRELOADED_PYTHON)
    if preloaded:
        multiprocessing.set_executable(preloaded)
