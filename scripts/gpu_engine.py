#!/usr/bin/env python3
"""Check verl's worker with our loss on one GPU, in one process: no vLLM, no Ray cluster, no download.

    PYTHONPATH=. python scripts/gpu_engine.py > engine.json         # a GPU; 6 minutes, 4 GB of disk, 8 GB of memory
    PYTHONPATH=. python scripts/gpu_engine.py --device cpu --small  # what it does, on a CPU

Trains a random model of Qwen3-0.6B's shape (--small: of 64 hidden units) in the dtypes and modes of a run, saves and
loads it, and puts the memory of `rpg plan` beside torch's. Needs this checkout, torch, transformers, verl and what verl
imports (scripts/gpu_wheels.sh). A line per check goes to stderr, all figures as JSON to stdout; exit code 1 if a check
failed.
"""

import argparse
import gc
import importlib.util
import os
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_report import Figures, Report, process_group, require, within

from rpg.plan import memory
from rpg.plan.estimate import MODELS, Shape, shape_of
from tests.verl_plugin.real_worker import batch, build_worker, of_update, response_log_probs, toy_tokenizer

A = "actor_rollout_ref.actor"
PRECISION = f"+{A}.fsdp_config.mixed_precision"
FP32 = [f"{PRECISION}={{param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}}"]
BF16 = [f"{PRECISION}={{param_dtype: bf16, reduce_dtype: fp32, buffer_dtype: fp32}}"]
FLASH = ["actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2",
         "actor_rollout_ref.model.use_fused_kernels=false"]  # fmt: skip
OFFLOADED = [f"{A}.fsdp_config.param_offload=true", f"{A}.fsdp_config.optimizer_offload=true"]
FASTER = [f"{A}.optim.lr=1e-3"]  # these optimizers begin slower: visible after three steps
# check -> overrides; float32 first, whose log-probs the others are compared with
MODES = {
    "float32": FP32,
    "bfloat16": BF16,
    "bfloat16, flash-attn": [*BF16, *FLASH],
    "use_torch_compile": [*FP32, f"{A}.use_torch_compile=true"],
    "schedule-free": [*FP32, "optim=schedulefree", *FASTER],
    "weights and moments offloaded": [*FP32, *OFFLOADED],
    "schedule-free, offloaded": [*FP32, "optim=schedulefree", *FASTER, *OFFLOADED],
    "offload_policy": [*FP32, f"{A}.fsdp_config.offload_policy=true"],
    "LoRA": [*FP32, "adapter=lora", *FASTER],
}
# Largest difference of the initial log-probs from float32's of the same model. bfloat16 has 8 bits: 4e-3 of the logits,
# and of every layer's output before them.
BOUND, BOUND_BF16 = 2e-4, 0.5
SEEN = (("hidden_size", "hidden"), ("num_hidden_layers", "layers"), ("intermediate_size", "intermediate"),
        ("num_attention_heads", "heads"), ("num_key_value_heads", "kv_heads"), ("head_dim", "head_dim"))  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What all checks share. lengths: prompt and response tokens per row; budget: tokens per micro-batch."""

    device: str
    folder: Path
    lengths: list[tuple[int, int]]
    budget: int

    @property
    def model(self) -> Path:
        """The directory of the model."""
        return self.folder / "model"


def main() -> int:
    """Run all checks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="a model of two layers, and sequences of 9 to 28 tokens")
    parser.add_argument(
        "--checks", nargs="*", choices=[*MODES], default=[*MODES], metavar="CHECK", help=", ".join(MODES)
    )
    args = parser.parse_args()
    os.environ.update(WANDB_MODE="disabled", RAY_LOCAL_WORLD_SIZE="1", LOCAL_RANK="0")
    os.environ.setdefault("VERL_LOGGING_LEVEL", "WARN")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "rpg.verl_plugin.autoload")  # this package need not be installed
    warnings.simplefilter("ignore", UserWarning)  # verl names every engine that is not installed
    cuda = args.device == "cuda"
    checks = ["float32", *args.checks]
    if not cuda or importlib.util.find_spec("flash_attn") is None:
        checks = [check for check in checks if not {*FLASH} <= {*MODES[check]}]
    shape = MODELS["Qwen/Qwen3-0.6B"]
    lengths, budget = [(256, 1792)] * 8, 8192
    if args.small:
        shape = Shape(64, 2, 96, 4, 2, 16, 0, True)
        lengths, budget = [(3, 6), (7, 11), (5, 4), (2, 9), (9, 14), (4, 3), (6, 20), (8, 8)], 48
    report = Report("gpu_engine.py", args.device, parameters=shape.parameters, sequences=len(lengths), budget=budget)
    with tempfile.TemporaryDirectory() as name:
        setting = Setting(args.device, Path(name), lengths, budget)
        with process_group(args.device):
            report.check("a random model", partial(write_model, setting, shape))
            initial: dict[str, list[torch.Tensor]] = {}
            for check in dict.fromkeys(checks):
                report.check(check, partial(train, setting, check, initial))
    return report.end()


def write_model(setting: Setting, shape: Shape) -> Figures:
    """Write a random Qwen3 of this shape in float32, with the toy tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = toy_tokenizer()
    torch.manual_seed(0)
    sizes = {key: getattr(shape, field) for key, field in SEEN}
    config = AutoConfig.for_model(
        "qwen3", **sizes, vocab_size=shape.vocabulary or len(tokenizer), tie_word_embeddings=shape.tied,
        max_position_embeddings=4096, initializer_range=0.1 if shape.hidden < 100 else 0.02,
        dtype="float32",
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(setting.model)
    tokenizer.save_pretrained(setting.model)
    written = shape_of(str(setting.model))
    assert written is not None
    return {"parameters": written.parameters, "vocabulary": written.vocabulary}


def overrides(setting: Setting, check: str) -> list[str]:
    """Return the settings of a check: of a run on one GPU without flash-attn, or of one on a CPU."""
    place = ["profile=one_gpu", "attention=sdpa"] if setting.device == "cuda" else ["profile=cpu"]
    return [
        *place,
        "optim=toy",
        "method=rpg_rf_clip_ppo",
        f"actor_rollout_ref.model.path={setting.model}",
        *MODES[check],
    ]


def train(setting: Setting, check: str, initial: dict[str, list[torch.Tensor]]) -> Figures:
    """Train three steps, save, load and train again. initial: log-probs of float32, written by its check."""
    cuda = setting.device == "cuda"
    gc.collect()  # the worker of the check before
    before = torch.cuda.memory_allocated() if cuda else 0

    def by_tokens(section: Any) -> None:
        section.model.external_lib = None  # it is about rollouts
        section.actor.fsdp_config.update(param_offload=check in OFFLOADING, optimizer_offload=check in OFFLOADING)
        section.actor.use_dynamic_bsz = section.rollout.log_prob_use_dynamic_bsz = True
        section.actor.ppo_max_token_len_per_gpu = section.rollout.log_prob_max_token_len_per_gpu = setting.budget

    worker = build_worker(*overrides(setting, check), prepare=by_tokens, platform="nvidia" if cuda else "cpu")
    generator = torch.Generator().manual_seed(1)
    prompts = [prompt for prompt, _ in setting.lengths]
    rows = [torch.randint(5, 300, (sum(pair),), generator=generator) for pair in setting.lengths]

    def log_probs() -> list[torch.Tensor]:
        data = batch(rows, prompts, calculate_entropy=False, compute_loss=False)
        return [row.float().cpu() for row in response_log_probs(worker.compute_log_prob, data)]

    old = log_probs()
    if check == "float32":
        initial["float32"] = old
    bf16 = {*BF16} <= {*MODES[check]}
    figures = {
        "log-probs apart": within("log-probs apart", apart(old, initial["float32"]), BOUND_BF16 if bf16 else BOUND)
    }
    fields = {"old_log_probs": [row + 0.1 * torch.sin(torch.arange(len(row))) for row in old]}

    def update() -> float:
        """Return the seconds of an optimizer step."""
        began = time.perf_counter()
        metrics = worker.update_actor(batch(rows, prompts, fields, **of_update(len(rows))))["metrics"]
        require(metrics["skipped_steps"] == 0, "an optimizer step was skipped for NaN or Inf")
        return time.perf_counter() - began

    seconds, update_peak = peak(lambda: [update() for _ in range(3)], cuda)
    trained, log_probs_peak = peak(log_probs, cuda)  # beside the moments
    require(apart(trained, old) > 0, "three updates left every log-prob as it was")
    saved = setting.folder / "saved" / "actor"
    worker.actor.save_checkpoint(str(saved), None, 1, None)
    update()
    further = log_probs()
    moved = apart(further, trained)
    require(moved > 0, "an update after saving left every log-prob as it was")
    worker.actor.load_checkpoint(str(saved), None, False)
    figures |= {"moved": f"{moved:.1e}", "loaded": within("after loading", apart(log_probs(), trained), moved / 10)}
    update()  # the same step from the same moments
    figures["repeated"] = within("the step repeated after loading", apart(log_probs(), further), moved / 10)
    figures["ms an update"] = round(seconds[-1] * 1e3)
    if cuda:
        measured = {"log-probs": log_probs_peak - before, "update": update_peak - before}
        figures |= beside_the_plan(setting, check, measured)
    return figures


OFFLOADING = [name for name, chosen in MODES.items() if {*OFFLOADED} <= {*chosen}]


def peak(function: Any, cuda: bool) -> tuple[Any, int]:
    """Return the function's result and the largest memory that torch allocated meanwhile, in bytes; 0 on a CPU."""
    if not cuda:
        return function(), 0
    torch.cuda.reset_peak_memory_stats()
    result = function()
    torch.cuda.synchronize()
    return result, torch.cuda.max_memory_allocated()


def apart(first: list[torch.Tensor], second: list[torch.Tensor]) -> float:
    """Return the largest difference between two lists of rows; NaN if there is a NaN."""
    return torch.stack([(x - y).abs().max() for x, y in zip(first, second, strict=True)]).max().item()


def beside_the_plan(setting: Setting, check: str, measured: dict[str, int]) -> Figures:
    """Return measured and planned GB of each phase; the plan's share outside torch is left out."""
    from rpg.config.compose import compose_config, resolve

    shape = shape_of(str(setting.model))
    assert shape is not None
    config = resolve(compose_config(["rpg.script=x", *overrides(setting, check)])).copy()
    section = config["actor_rollout_ref"]
    for part, key in ((section["actor"], "ppo_max_token_len_per_gpu"),
                      (section["rollout"], "log_prob_max_token_len_per_gpu")):  # fmt: skip
        part[key] = setting.budget
    section["actor"]["use_dynamic_bsz"] = True
    section["actor"]["fsdp_config"].update(param_offload=check in OFFLOADING, optimizer_offload=check in OFFLOADING)
    plan = {phase.name: phase for phase in memory.phases(shape, config, 1, 80e9)}
    return {
        f"{name} GB, planned": f"{size / 1e9:.2f}, {(plan[name].size - memory.OUTSIDE) / 1e9:.2f}"
        for name, size in measured.items()
    }


if __name__ == "__main__":
    sys.exit(main())
