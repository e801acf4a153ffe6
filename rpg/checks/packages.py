"""Check that the installed builds of torch, vLLM and flash-attn fit the run."""

import importlib
import importlib.util
import sys
from importlib import metadata

from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig, logs_to
from rpg.diagnostics import Findings
from rpg.verl_plugin.schedule_free import INSTALL, PACKAGE, asked_for

ENVIRONMENT = "activate the environment of scripts/setup_gpu.sh, or set PYTHON=/path/to/python"
WITHOUT = "add attention=sdpa, which does not need flash-attn (docs/gpu.md)"


# imported by verl's trainer, which requires them only in its extra `verl-core`
VERL_CORE = ("cachetools", "fastapi", "msgspec", "transfer_queue", "uvicorn", "zmq")
ENGINES = ("vllm", "sglang")
# of trainer.logger, the module that verl's Tracking imports; console and file need none
LOGGERS = {
    "wandb": "wandb", "tensorboard": "tensorboard", "mlflow": "mlflow", "swanlab": "swanlab", "clearml": "clearml",
    "trackio": "trackio", "vemlp_wandb": "volcengine_ml_platform", "rl_insight": "rl_insight",
}  # fmt: skip


def cpu_torch(run: RunConfig) -> bool:
    """Return whether the run needs GPUs and torch is a CPU build."""
    import torch

    return run.settings.device == "cuda" and torch.version.cuda is None and torch.version.hip is None


def packages_of_a_run(run: RunConfig) -> Findings:
    """The packages of verl's trainer and the inference engine are installed.

    This package requires verl without its extras, which bring them. Skipped on a cluster.
    """
    if run.cluster:
        return
    s = run.settings
    engine = s.engine
    needed = [*VERL_CORE, engine] if engine in ENGINES else VERL_CORE
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        remedy = f"{ENVIRONMENT}; without a checkout, pip install 'verl[{engine}]' brings them"
        yield s.error("engine", f"{sys.prefix} has no {', '.join(missing)}", remedy)


def gpu_builds(run: RunConfig) -> Findings:
    """A run on GPUs has GPU builds of torch and vLLM, not the environment of profile=cpu.

    A CPU build of torch would otherwise look like a machine without GPUs. Skipped on a cluster.
    """
    s = run.settings
    if run.cluster or s.device != "cuda":
        return
    packages = [f"torch {metadata.version('torch')}"] if cpu_torch(run) else []
    vllm = s.engine == "vllm" and importlib.util.find_spec("vllm") and metadata.version("vllm")
    if vllm and vllm.endswith("+cpu"):
        packages.append(f"vllm {vllm}")
    if packages:
        message = f"CPU builds in {sys.prefix}: {' and '.join(packages)}"
        yield s.error("device", message, f"{ENVIRONMENT}, or use profile=cpu in this one")


def logger_packages(run: RunConfig) -> Findings:
    """The packages of trainer.logger are installed.

    verl imports them after the start. Skipped on a cluster.
    """
    s = run.settings
    if run.cluster:
        return
    for name in (name for name in LOGGERS if logs_to(s.loggers, name)):
        if importlib.util.find_spec(LOGGERS[name]) is None:
            message = f"{name} needs the package {LOGGERS[name]}, which {sys.prefix} does not have"
            yield s.error("loggers", message, f"install it, or leave {name} out")


def _import_error(module: str) -> str | None:
    """Return why a module cannot be imported, on one line, or None."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:  # a library that cannot be loaded raises one or the other
        return " ".join(str(error).split()) or type(error).__name__
    return None


def flash_attention(run: RunConfig) -> Findings:
    """Flash-attn can be imported if the model asks for it.

    Otherwise transformers would fail when it builds the actor, also if flash-attn was built for another torch.
    """
    s = run.settings
    if run.cluster or s.attention != "flash_attention_2":
        return
    if reason := _import_error("flash_attn"):
        remedy = f"{WITHOUT}, or install it: FLASH_ATTN_WHEEL=URL or FLASH_ATTN=1 bash scripts/setup_gpu.sh"
        yield s.error("attention", f"flash-attn cannot be imported ({reason})", remedy)


def cross_entropy(run: RunConfig) -> Findings:
    """Log-probs over a large vocabulary have a kernel: flash-attn's or verl's fused one.

    Without either, verl's logprobs_from_logits_v2 processes the logits of a micro-batch token by token.
    """
    s = run.settings
    if run.cluster or s.device != "cuda" or s.fused:
        return
    if reason := _import_error("flash_attn.ops.triton.cross_entropy"):
        message = f"without flash-attn's cross-entropy ({reason}) verl processes the logits token by token"
        remedy = f"set {KEYS['fused']}=true, or install flash-attn: FLASH_ATTN=1 bash scripts/setup_gpu.sh"
        yield s.finding("fused", message, remedy, "warning")


def schedule_free_package(run: RunConfig) -> Findings:
    """The package schedulefree is installed if it is used.

    Skipped on a cluster, whose nodes have their own environments.
    """
    s = run.settings
    if not run.cluster and asked_for(s.optimizer_package) and importlib.util.find_spec(PACKAGE) is None:
        message = f"the package {PACKAGE} is not installed"
        yield s.error("optimizer_package", message, f"install it with {INSTALL}, or use optim=adamw")
