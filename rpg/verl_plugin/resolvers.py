"""The resolvers ${rpg.NAME:...} of recipe/rpg/config.

autoload.py registers them too, so that verl's own command can read the recipe:
`python -m verl.trainer.main_ppo --config-path recipe/rpg/config --config-name rpg_trainer`.
"""

import math
import os
from bisect import bisect
from pathlib import Path

import yaml
from omegaconf import OmegaConf

from rpg.gpu_host import visible
from rpg.registry.scripts import home

BF16_FLAGS = {"amx_bf16", "avx512_bf16"}  # in /proc/cpuinfo


def files(variable: str, default: str | list[str]) -> str | list[str]:
    """Return the parquet files in an environment variable, or `default` if it is not set.

    variable: a variable with an unquoted path, or a YAML list [a,b] of paths; paths with a comma are quoted.
    """
    text = os.environ.get(variable)
    if text is None or not (text.startswith("[") and text.endswith("]")):
        return default if text is None else text
    return yaml.load(text, yaml.BaseLoader)  # read every scalar as text


def detected_memory() -> float:
    """Return the GB of the smallest visible GPU: GPU_MEMORY_GB, else what nvidia-smi reports, else 24."""
    if text := os.environ.get("GPU_MEMORY_GB"):
        return float(text)
    return round(min((gpu.memory for gpu in visible()), default=24e9) / 1e9, 1)


def cpu_dtype() -> str:
    """Return bfloat16 if this processor multiplies in it (AMX, AVX512-BF16), half again as fast; else float32."""
    return "bfloat16" if BF16_FLAGS & {*Path("/proc/cpuinfo").read_text().split()} else "float32"


def cpu_attention() -> str:
    """Return the faster attention on this processor: plain products in bfloat16 (2 against 23 ms for the gradient of 32
    sequences of 19 tokens), torch's kernel in float32 (2 against 56 ms)."""
    return "eager" if cpu_dtype() == "bfloat16" else "sdpa"


RESOLVERS = {
    "home": lambda: str(home()),
    # verl resolves the configuration in place, which takes no plain list
    "files": lambda *of: value if isinstance(value := files(*of), str) else OmegaConf.create(list(value)),
    "detected_memory": detected_memory,
    "cpu_dtype": cpu_dtype,
    "cpu_attention": cpu_attention,
    "by_memory": lambda gb, *values: values[bisect([48, 80], gb)],  # choose from the values for 24, 48 and 80 GB
    "sum": lambda *numbers: sum(numbers),
    "product": lambda *numbers: math.prod(numbers),
    "quotient": lambda whole, part: whole // part,
}


def register() -> None:
    """Register all with OmegaConf, again if they are registered."""
    for name, function in RESOLVERS.items():
        OmegaConf.register_new_resolver(f"rpg.{name}", function, replace=True)
