"""Prints GPUs and versions, the header of scripts/check_gpu.sh's table."""

import torch

from rpg.verl_plugin.version import installed

for number in range(torch.cuda.device_count()):
    device = torch.cuda.get_device_properties(number)
    print(f"figure: {device.name}, {device.total_memory / 2**30:.0f} GiB, compute {device.major}.{device.minor}")
names = ("verl", "vllm", "ray", "transformers", "flash-attn")
print(f"figure: torch {torch.__version__}", *(f"{name} {installed(name) or 'missing'}" for name in names), sep=", ")
