"""What a machine with NVIDIA GPUs has besides Python packages: GPUs, driver, Python headers, compiler.

Asks nvidia-smi and libcuda without a CUDA context, which would hold GPU memory as long as its process. Imports the
standard library only: scripts/setup_gpu.sh runs it before it installs anything. `python -m rpg.gpu_host` prints
what is wrong; exit code 1 if anything is.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
CUDA = 13  # of the torch that requirement.txt pins
DRIVERS = {12: 525, 13: 580}  # CUDA's major version -> first driver (CUDA's release notes)
QUERY = "--query-gpu=index,uuid,name,memory.total,driver_version,mig.mode.current"


@dataclass(frozen=True)
class GPU:
    """A line of nvidia-smi. memory: bytes. parted: into instances (MIG), of which a process sees one."""

    index: int
    uuid: str
    name: str
    memory: int
    driver: str
    parted: bool


def present() -> list[GPU]:
    """Return the machine's GPUs; none if nvidia-smi is missing, fails or answers something else."""
    try:
        command = ["nvidia-smi", QUERY, "--format=csv,noheader,nounits"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        lines = [[field.strip() for field in line.split(",")] for line in answer.splitlines() if line.strip()]
        return [GPU(int(index), uuid, name, int(float(memory) * MIB), driver, mig == "Enabled")
                for index, uuid, name, memory, driver, mig in lines]  # fmt: skip
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def visible() -> list[GPU]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves to this process, in its order; without the variable all.

    As in CUDA, the list ends at its first entry that names no GPU, and a UUID may be abbreviated. A part of a GPU
    (MIG) counts as no GPU here, because nvidia-smi gives only the whole one's memory. CUDA numbers unequal GPUs by
    speed unless CUDA_DEVICE_ORDER=PCI_BUS_ID; nvidia-smi always by bus.
    """
    gpus, wanted = [gpu for gpu in present() if not gpu.parted], os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return gpus
    chosen: list[GPU] = []
    for entry in map(str.strip, wanted.split(",")):
        named = [gpu for gpu in gpus if entry == str(gpu.index) or (len(entry) > 4 and gpu.uuid.startswith(entry))]
        if len(named) != 1:
            break
        chosen += named
    return chosen


def cuda_of_the_driver() -> int | None:
    """Return the CUDA major version that libcuda supports, or None without libcuda.

    Above nvidia-smi's driver in a container with NVIDIA's forward-compatibility package.
    """
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else version.value // 1000


def old_driver(cuda: int = CUDA) -> tuple[str, str] | None:
    """Return the driver that is too old for this major version of CUDA, and what is wrong; None if none is seen."""
    supported, needed = cuda_of_the_driver(), DRIVERS.get(cuda, 0)
    driver = min((gpu.driver for gpu in present()), key=_major, default=None)
    if supported is not None and supported >= cuda:
        return None
    if supported is None and (driver is None or _major(driver) >= needed):
        return None
    message = f"is too old for torch's CUDA {cuda}, which needs driver {needed} or later"
    return driver or f"of CUDA {supported}", message


def _major(driver: str) -> int:
    number = driver.partition(".")[0]
    return int(number) if number.isdecimal() else sys.maxsize


def header() -> Path:
    """Return where Triton looks for Python.h."""
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
    return Path(sysconfig.get_paths(scheme=scheme)["include"]) / "Python.h"


def compiler() -> str | None:
    """Return the C compiler that Triton takes: CC, gcc or clang."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    return next((path for name in names if (path := shutil.which(name))), None)


UPDATE = "install a newer NVIDIA driver"
COMPILES = "Triton compiles with it at the first kernel"


def build_tools() -> Iterator[tuple[str, str, str]]:
    """Yield what Triton's and flash-attn's compilation lacks: name, what is wrong, remedy."""
    if not header().is_file():
        release = f"{sys.version_info.major}.{sys.version_info.minor}"
        yield "Python.h", f"{header()} is missing, and {COMPILES}", f"apt install python{release}-dev"
    if compiler() is None:
        asked = f"CC={os.environ['CC']} is" if "CC" in os.environ else "gcc and clang are"
        yield "C compiler", f"{asked} missing, and {COMPILES}", "apt install gcc, or set CC to a compiler"


if __name__ == "__main__":
    if driver := old_driver():
        print(f"NVIDIA driver={driver[0]}: {driver[1]}; {UPDATE}")
    tools = list(build_tools())
    for name, message, remedy in tools:
        print(f"{name}: {message}; {remedy}")
    sys.exit(bool(driver or tools))
