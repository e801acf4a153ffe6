"""Devices, memory, tokens and disk: what a configuration needs against what is there; part of `rpg doctor`."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpg.checks import estimate

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "skip"}


@dataclass(frozen=True)
class Check:
    """The outcome of one check: state is ok, warn, fail or skip; the remedy stands where there is one."""

    name: str
    state: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{MARKS[self.state]}  {self.name}: {self.found}"
        return f"{line} -> {self.remedy}" if self.remedy else line


def check_budgets(config: dict[str, Any], cpu: bool) -> Iterator[Check]:
    """Devices, memory, tokens and disk against what the settings ask for."""
    devices = config["trainer"]["n_gpus_per_node"] * config["trainer"]["nnodes"]
    memory, check = _device_memory(config, cpu)
    yield check
    yield check_tokens(config)
    try:
        shape = estimate.shape_of(str(config["actor_rollout_ref"]["model"]["path"]))
    except ValueError as error:
        yield Check("memory", "warn", str(error))
        return
    if shape is None:
        yield Check("memory", "warn", "model shape not known here", "set MODEL_PATH to a local directory")
        return
    yield from _check_memory(config, shape, devices, memory, cpu)
    yield check_disk(config, shape)


def _device_memory(config: dict[str, Any], cpu: bool) -> tuple[float | None, Check]:
    """Bytes of one device (of the host, where devices are logical), None where there is none to ask."""
    import psutil
    import torch

    wanted = config["trainer"]["n_gpus_per_node"]
    if cpu:
        free = psutil.virtual_memory().available
        return free, Check(
            "devices", "ok", f"CPU profile: {wanted} logical, {free / estimate.GB:.3g} GB of memory free"
        )
    if os.environ.get("RAY_ADDRESS"):
        return None, Check("devices", "skip", "the cluster at RAY_ADDRESS is asked by verl when the run starts")
    present = torch.cuda.device_count()
    if present < wanted:
        remedy = "set trainer.n_gpus_per_node, or RAY_ADDRESS to a cluster that has them, or take a cpu/ script"
        return None, Check("devices", "fail", f"trainer.n_gpus_per_node={wanted}, this machine has {present}", remedy)
    memory = min(torch.cuda.get_device_properties(index).total_memory for index in range(present))
    return memory, Check("devices", "ok", f"{present} GPUs, {memory / estimate.GB:.3g} GB each")


def _check_memory(
    config: dict[str, Any], shape: estimate.Shape, devices: int, memory: float | None, cpu: bool
) -> Iterator[Check]:
    needs = estimate.training(shape, config, devices)
    if memory is None:
        yield Check("memory, training", "warn", f"about {needs} a device", "no device here to compare with")
        return
    available = memory / devices if cpu else memory
    state = "ok" if needs.size <= available else "fail"
    remedy = "" if state == "ok" else "more devices, a smaller ppo_max_token_len_per_gpu, or fsdp_config offloading"
    yield Check(
        "memory, training", state, f"about {needs}; there are {available / estimate.GB:.3g} GB a device", remedy
    )
    share = config["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"]
    if cpu:
        environment = config.get("rpg", {}).get("env", {})
        cache = (
            float(os.environ.get("VLLM_CPU_KVCACHE_SPACE") or environment.get("VLLM_CPU_KVCACHE_SPACE") or 4) * 2**30
        )
    else:
        cache = share * memory
        rolling = estimate.rollout(shape, config, devices, memory)
        state = "ok" if rolling.size <= memory else "fail"
        remedy = "" if state == "ok" else "lower rollout.gpu_memory_utilization, or offload the actor (param_offload)"
        yield Check("memory, rollout", state, f"about {rolling}; a device has {memory / estimate.GB:.3g} GB", remedy)
    count, formula = estimate.kv_sequences(shape, config, cache, weights_in_it=not cpu)
    remedy = "" if count >= 1 else "more memory for vLLM, or a smaller data.max_response_length"
    yield Check("KV cache", "ok" if count >= 1 else "fail", f"{count:.0f} full sequences at once = {formula}", remedy)


def check_tokens(config: dict[str, Any]) -> Check:
    """Prompt and response fit into every token budget that the settings name."""
    parts, data = config["actor_rollout_ref"], config["data"]
    needed = data["max_prompt_length"] + data["max_response_length"]
    budgets = {"rollout.max_model_len": parts["rollout"].get("max_model_len")}
    if parts["actor"]["use_dynamic_bsz"]:
        budgets["actor.ppo_max_token_len_per_gpu"] = parts["actor"]["ppo_max_token_len_per_gpu"]
    if parts["rollout"].get("log_prob_use_dynamic_bsz"):
        budgets["rollout.log_prob_max_token_len_per_gpu"] = parts["rollout"]["log_prob_max_token_len_per_gpu"]
    short = [f"{key}={value}" for key, value in budgets.items() if value is not None and value < needed]
    lengths = f"data.max_prompt_length + data.max_response_length = {needed}"
    if short:
        return Check("tokens", "fail", f"{', '.join(short)} below {lengths}", "raise it, or shorten the lengths")
    return Check("tokens", "ok", f"{lengths} fits every budget")


def check_disk(config: dict[str, Any], shape: estimate.Shape) -> Check:
    """Room for all checkpoints where they will be written."""
    needs = estimate.checkpoints(shape, config)
    target = Path(config["trainer"]["default_local_dir"]).expanduser().absolute()
    place = next(folder for folder in (target, *target.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    state = "ok" if needs.size <= free else "fail"
    remedy = "" if state == "ok" else "set CKPTS_DIR elsewhere, trainer.max_actor_ckpt_to_keep, or a larger save_freq"
    return Check("disk", state, f"about {needs}; {free / estimate.GB:.3g} GB free at {place}", remedy)
