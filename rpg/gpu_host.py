"""The machine's NVIDIA GPUs, by nvidia-smi: a CUDA context would hold GPU memory as long as its process."""

import os
import subprocess
from dataclasses import dataclass

MIB = 2**20
QUERY = "--query-gpu=index,uuid,name,memory.total,driver_version,mig.mode.current"


@dataclass(frozen=True)
class GPU:
    """A line of nvidia-smi. memory: bytes."""

    index: int
    uuid: str
    name: str
    memory: int
    driver: str


def visible() -> list[GPU]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names by index or UUID, in its order; without the variable all.

    [] if nvidia-smi is missing, fails or answers something else. A part of a GPU (MIG) counts as no GPU, because
    nvidia-smi gives only the whole one's memory. CUDA numbers unequal GPUs by speed unless
    CUDA_DEVICE_ORDER=PCI_BUS_ID; nvidia-smi always by bus.
    """
    try:
        command = ["nvidia-smi", QUERY, "--format=csv,noheader,nounits"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        lines = [[field.strip() for field in line.split(",")] for line in answer.splitlines() if line.strip()]
        gpus = [GPU(int(index), uuid, name, int(float(memory) * MIB), driver)
                for index, uuid, name, memory, driver, mig in lines if mig != "Enabled"]  # fmt: skip
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return gpus
    return [gpu for name in wanted.split(",") for gpu in gpus if name.strip() in (str(gpu.index), gpu.uuid)]
