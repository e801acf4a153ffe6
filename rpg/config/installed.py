"""Check that the installed builds of torch, vLLM and flash-attn fit the run."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib import metadata

from rpg.config.check import check
from rpg.config.run_config import RunConfig
from rpg.data.diagnostics import Diagnostic
from rpg.verl_plugin.schedule_free import INSTALL, OPTIM, PACKAGE, asked_for

DEVICE = "trainer.device"
ROLLOUT = "actor_rollout_ref.rollout.name"
ATTENTION = "actor_rollout_ref.model.override_config.attn_implementation"
FUSED = "actor_rollout_ref.model.use_fused_kernels"
ENVIRONMENT = "activate the environment of scripts/setup_gpu.sh, or set PYTHON=/path/to/python"
WITHOUT = "add attention=sdpa, which does not need flash-attn (docs/gpu.md)"


# imported by verl's trainer, which requires them only in its extra `verl-core`
VERL_CORE = ("cachetools", "fastapi", "msgspec", "transfer_queue", "uvicorn", "zmq")
ENGINES = ("vllm", "sglang")


def cpu_torch(run: RunConfig) -> bool:
    """Return whether the run needs GPUs and torch is a CPU build."""
    import torch

    return run.get(DEVICE) == "cuda" and torch.version.cuda is None and torch.version.hip is None


@check("packages of a run", "the packages of verl's trainer and the inference engine are installed", subject="machine")
def of_a_run(run: RunConfig) -> Iterator[Diagnostic]:
    """This package requires verl without its extras, which bring them. Skipped on a cluster."""
    if run.cluster:
        return
    engine = run.get(ROLLOUT)
    needed = [*VERL_CORE, engine] if engine in ENGINES else VERL_CORE
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        remedy = f"{ENVIRONMENT}; without a checkout, pip install 'verl[{engine}]' brings them"
        yield Diagnostic(ROLLOUT, engine, f"{sys.prefix} has no {', '.join(missing)}", remedy)


@check("builds for GPUs", "a run on GPUs has GPU builds of torch and vLLM, not the environment of profile=cpu",
       subject="machine")  # fmt: skip
def gpu_builds(run: RunConfig) -> Iterator[Diagnostic]:
    """A CPU build of torch would otherwise look like a machine without GPUs. Skipped on a cluster."""
    if run.cluster or run.get(DEVICE) != "cuda":
        return
    packages = [f"torch {metadata.version('torch')}"] if cpu_torch(run) else []
    vllm = run.get(ROLLOUT) == "vllm" and importlib.util.find_spec("vllm") and metadata.version("vllm")
    if vllm and vllm.endswith("+cpu"):
        packages.append(f"vllm {vllm}")
    if packages:
        wrong = f"CPU builds in {sys.prefix}: {' and '.join(packages)}"
        yield Diagnostic(DEVICE, "cuda", wrong, f"{ENVIRONMENT}; profile=cpu is for this one")


def _import_error(module: str) -> str | None:
    """Return why a module cannot be imported, on one line, or None."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:  # a library that cannot be loaded raises one or the other
        return " ".join(str(error).split()) or type(error).__name__
    return None


@check("flash attention", "flash-attn can be imported if the model asks for it", subject="machine")
def flash_attention(run: RunConfig) -> Iterator[Diagnostic]:
    """Otherwise transformers would fail when it builds the actor, also if flash-attn was built for another torch."""
    if run.cluster or run.get(ATTENTION) != "flash_attention_2":
        return
    if reason := _import_error("flash_attn"):
        remedy = f"bash scripts/setup_gpu.sh builds it, or {WITHOUT}"
        yield Diagnostic(ATTENTION, run.get(ATTENTION), f"flash-attn cannot be imported ({reason})", remedy)


@check("cross-entropy", "log-probs over a large vocabulary have a kernel: flash-attn's or verl's fused one",
       subject="machine")  # fmt: skip
def cross_entropy(run: RunConfig) -> Iterator[Diagnostic]:
    """Without either, verl's logprobs_from_logits_v2 processes the logits of a micro-batch token by token."""
    if run.cluster or run.get(DEVICE) != "cuda" or run.get(FUSED):
        return
    if reason := _import_error("flash_attn.ops.triton.cross_entropy"):
        wrong = f"without flash-attn's cross-entropy ({reason}) verl processes the logits token by token"
        remedy = f"set {FUSED}=true, or bash scripts/setup_gpu.sh builds flash-attn"
        yield Diagnostic(FUSED, run.get(FUSED), wrong, remedy, "warning")


@check("schedule-free package", "the package schedulefree is installed if it is used", subject="machine")
def schedule_free(run: RunConfig) -> Iterator[Diagnostic]:
    """Skipped on a cluster, whose nodes have their own environments."""
    key = f"{OPTIM}.optimizer_impl"
    if not run.cluster and asked_for(run.get(key)) and importlib.util.find_spec(PACKAGE) is None:
        wrong = f"the package {PACKAGE} is not installed"
        yield Diagnostic(key, run.get(key), wrong, f"install it with {INSTALL}, or use optim=adamw")
