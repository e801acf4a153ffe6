"""Prints GPUs and versions, the header of scripts/check_gpu.sh's table."""

from importlib import metadata

import torch

for number in range(torch.cuda.device_count()):
    device = torch.cuda.get_device_properties(number)
    print(f"figure: {device.name}, {device.total_memory / 2**30:.0f} GiB, compute {device.major}.{device.minor}")


def version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


names = ("verl", "vllm", "ray", "transformers", "flash-attn")
print(f"figure: torch {torch.__version__}", *(f"{name} {version(name)}" for name in names), sep=", ")
