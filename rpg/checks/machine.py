"""Checks of the machine and its packages: devices, builds of torch, vLLM and flash-attn, /dev/shm."""

import importlib
import importlib.util
import os
import shutil
import sys
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from rpg.config.run_config import RunConfig, logs_to
from rpg.config.verl_keys import MODEL, OPTIM, RAY, ROLLOUT
from rpg.diagnostics import ABSENT, Diagnostic, Findings
from rpg.verl_plugin.schedule_free import INSTALL, PACKAGE, asked_for

ENVIRONMENT = "activate the environment of scripts/setup_gpu.sh, or set PYTHON=/path/to/python"
WITHOUT = "add attention=sdpa, which does not need flash-attn (docs/gpu.md)"
GPUS = "trainer.n_gpus_per_node"


def devices(run: RunConfig) -> Findings:
    """The machine, or the Ray that the run starts, has the GPUs and GPU builds; several nodes need a cluster.

    Ray would wait for missing GPUs. verl checks a cluster's devices after submission.
    """
    if run.cluster:
        yield run.error(GPUS, "verl checks the cluster's devices", "", "skip")
        return
    if run["trainer.nnodes"] > 1:
        message = "needs a cluster, but this run starts its own Ray"
        yield run.error("trainer.nnodes", message, "set RAY_ADDRESS, or NNODES=1")
        return
    if run["trainer.device"] == "cuda":
        import torch

        cpu_torch = torch.version.cuda is None and torch.version.hip is None
        packages = [f"torch {metadata.version('torch')}"] if cpu_torch else []
        vllm = importlib.util.find_spec("vllm") and metadata.version("vllm")
        if vllm and vllm.endswith("+cpu"):
            packages.append(f"vllm {vllm}")
        if packages:
            message = f"CPU builds in {sys.prefix}: {' and '.join(packages)}"
            yield run.error("trainer.device", message, f"{ENVIRONMENT}, or use profile=cpu in this one")
            return
    need, present = run[GPUS] + run.rollout_devices, run[f"{RAY}.num_gpus"]
    place, remedy = f"{RAY}.num_gpus is", f"set {RAY}.num_gpus to {need}"
    if present is None:
        import torch

        present, place = torch.cuda.device_count(), "this machine has"
        remedy = f"set {GPUS}, set RAY_ADDRESS to a cluster that has them, or use profile=cpu"
    if present < need:
        more = f"and {run.rollout_devices} for {ROLLOUT}: " if run.rollout_devices else ""
        yield run.error(GPUS, f"{more}{place} {present}", remedy)


def directory_name(run: RunConfig) -> Findings:
    """The name of an output directory has no variable, which Ray would expand to another directory."""
    for key in ("trainer.default_local_dir", "trainer.validation_data_dir"):
        path = run[key]
        if path is not None and os.path.expandvars(path) != path:
            message = f"Ray would read it as {os.path.expandvars(path)}"
            yield run.error(key, message, "use a directory without $ in its name (CKPTS_DIR)")


LIBRARIES = ("datasets", "hydra", "numpy", "omegaconf", "pandas", "peft", "pyarrow", "ray", "tensordict", "torch",
             "transfer_queue", "transformers", "verl", "vllm")  # fmt: skip


def working_directory(run: RunConfig) -> Findings:
    """No file of the working directory has the name of a module of Python's or of LIBRARIES.

    Ray puts the directory first in the search path of its workers, and torch in that of the programs that it starts.
    With a types.py there, torch's compiler misjudged the processor, and vLLM ended in a C++ error.
    """
    here = Path.cwd().resolve()
    files = {path.parent.name: path for path in here.glob("*/__init__.py")} | {p.stem: p for p in here.glob("*.py")}
    others = [path for path in sys.path if Path(path).resolve() != here]
    for name in sorted(files.keys() & {*sys.stdlib_module_names, *LIBRARIES} - {"test"}):
        if PathFinder.find_spec(name, others):
            message = f"would be imported instead of the installed {name} by the run's processes"
            yield Diagnostic(str(files[name]), ABSENT, message, "rename it, or start the run in another directory")


def _import_error(module: str) -> str | None:
    """Return why a module cannot be imported, on one line, or None."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:  # a library that cannot be loaded raises one or the other
        return " ".join(str(error).split()) or type(error).__name__
    return None


def flash_attention(run: RunConfig) -> Findings:
    """Flash-attn can be imported if the model asks for it, and log-probs over a large vocabulary have a kernel."""
    attention, fused = f"{MODEL}.override_config.attn_implementation", f"{MODEL}.use_fused_kernels"
    if run.cluster:
        return
    if run[attention] == "flash_attention_2" and (reason := _import_error("flash_attn")):
        remedy = f"{WITHOUT}, or install it: FLASH_ATTN_WHEEL=URL or FLASH_ATTN=1 bash scripts/setup_gpu.sh"
        yield run.error(attention, f"flash-attn cannot be imported ({reason})", remedy)
        return
    kernel = "flash_attn.ops.triton.cross_entropy"
    if run["trainer.device"] == "cuda" and not run[fused] and (reason := _import_error(kernel)):
        message = f"without flash-attn's cross-entropy ({reason}) verl processes the logits token by token"
        yield run.error(fused, message, "set it to true, or install flash-attn (scripts/setup_gpu.sh)", "warning")


def schedule_free_package(run: RunConfig) -> Findings:
    """The package schedulefree is installed if it is used. Skipped on a cluster, whose nodes have their own."""
    key = f"{OPTIM}.optimizer_impl"
    if not run.cluster and asked_for(run[key]) and importlib.util.find_spec(PACKAGE) is None:
        message = f"the package {PACKAGE} is not installed"
        yield run.error(key, message, f"install it with {INSTALL}, or use optim=adamw")


# of trainer.logger, the module that verl's Tracking imports; console and file need none
LOGGERS = {
    "wandb": "wandb", "tensorboard": "tensorboard", "mlflow": "mlflow", "swanlab": "swanlab", "clearml": "clearml",
    "trackio": "trackio", "vemlp_wandb": "volcengine_ml_platform", "rl_insight": "rl_insight",
}  # fmt: skip


def logger_packages(run: RunConfig) -> Findings:
    """The packages of trainer.logger are installed; verl imports them after the start. Skipped on a cluster."""
    for name in LOGGERS if not run.cluster else ():
        if logs_to(run["trainer.logger"], name) and importlib.util.find_spec(LOGGERS[name]) is None:
            message = f"{name} needs the package {LOGGERS[name]}, which {sys.prefix} does not have"
            yield run.error("trainer.logger", message, f"install it, or leave {name} out")


SHARED_MEMORY = 2**30  # bytes; NCCL's documentation asks for 1 GB in a container
QUEUE = 160 * 2**20  # bytes: the queue of vLLM's engine to its workers (10 chunks of 16 MiB)


def shared_memory(run: RunConfig) -> Findings:
    """/dev/shm has space for NCCL, data loaders and vLLM's queues on GPUs.

    A process that writes beyond /dev/shm is killed without a message; Ray only moves its objects to a disk.
    For a CPU the check weight_bucket asks for what is written there.
    """
    if run.cluster or run["trainer.device"] != "cuda":
        return
    need, free = SHARED_MEMORY + run[GPUS] * QUEUE, shutil.disk_usage("/dev/shm").free
    if free < need:
        message = f"has {free / 1e6:.0f} MB free, and NCCL, data loaders and vLLM need {need / 1e6:.0f}"
        remedy = "docker run --shm-size=16g (or --ipc=host); on a host, mount -o remount,size=16g /dev/shm"
        yield Diagnostic("/dev/shm", ABSENT, message, remedy)
