"""verl's worker with our loss in one process, without vLLM and Ray's cluster: it trains, saves, loads and trains again.

On a GPU (16 GB; 6 minutes, 4 GB of disk) a random model of Qwen3-0.6B's shape; on a CPU one of two layers.
"""

import contextlib
import gc
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.verl_plugin.real_worker import batch, build_worker, model_directory, of_update, response_log_probs
from tests.verl_plugin.tiny_fsdp import process_group

A = "actor_rollout_ref.actor"
PRECISION = f"+{A}.fsdp_config.mixed_precision"
FP32 = [f"{PRECISION}={{param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}}"]
BF16 = [f"{PRECISION}={{param_dtype: bf16, reduce_dtype: fp32, buffer_dtype: fp32}}"]
FLASH = ["actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2",
         "actor_rollout_ref.model.use_fused_kernels=false"]  # fmt: skip
OFFLOADED = [f"{A}.fsdp_config.{part}_offload=true" for part in ("param", "optimizer")]
FASTER = [f"{A}.optim.lr=1e-3"]  # these optimizers begin slower: visible after three steps
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
ON_CPU = ("bfloat16", "schedule-free, offloaded", "LoRA")
CASES = [pytest.param(("cuda", mode), marks=pytest.mark.gpu, id=f"cuda, {mode}") for mode in MODES]
CASES += [pytest.param(("cpu", mode), marks=pytest.mark.full, id=f"cpu, {mode}") for mode in ON_CPU]
# Largest difference of the initial log-probs from float32's of the same model. bfloat16 has 8 bits: 4e-3 of the logits,
# and of every layer's output before them.
BOUND, BOUND_BF16 = 2e-4, 0.5
QWEN3_06B = {"hidden_size": 1024, "num_hidden_layers": 28, "intermediate_size": 3072, "num_attention_heads": 16,
             "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "initializer_range": 0.02,
             "max_position_embeddings": 4096}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What all modes on a device share.

    Attributes:
        lengths: prompt and response tokens of each row.
        budget: tokens of a micro-batch.
        initial: log-probs of the float32 model, a tensor a response; written by the first mode.
    """

    device: str
    folder: Path
    lengths: list[tuple[int, int]]
    budget: int
    initial: list[torch.Tensor]


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Iterator[Callable[[str], Setting]]:
    """Return a function that makes a device's setting once, in this process's group: NCCL on a GPU, gloo on a CPU."""
    made: dict[str, Setting] = {}
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        variables = {"WANDB_MODE": "disabled", "RAY_LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
        for name, value in {**variables, "GLOO_SOCKET_IFNAME": "lo"}.items():
            patch.setenv(name, value)
        patch.setenv("VERL_USE_EXTERNAL_MODULES", "rpg.verl_plugin.autoload")  # this package need not be installed

        def setting(device: str) -> Setting:
            if device not in made:
                if device == "cuda":
                    torch.cuda.set_device(0)
                stack.enter_context(process_group(backend="cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"))
                small = [(3, 6), (7, 11), (5, 4), (2, 9), (9, 14), (4, 3), (6, 20), (8, 8)]
                lengths, budget = ([(256, 1792)] * 8, 8192) if device == "cuda" else (small, 48)
                made[device] = Setting(device, tmp_path_factory.mktemp(device), lengths, budget, [])
                model_directory(made[device].folder / "model", "qwen3", **(QWEN3_06B if device == "cuda" else {}))
            return made[device]

        yield setting


def worker_of(setting: Setting, mode: str) -> Any:
    """Build verl's worker with the settings of a run on one GPU without flash-attn, or of one on a CPU."""
    place = ["profile=one_gpu", "attention=sdpa"] if setting.device == "cuda" else ["profile=cpu"]
    model = f"actor_rollout_ref.model.path={setting.folder / 'model'}"
    offloads = set(OFFLOADED) <= set(MODES[mode])

    def prepare(section: Any) -> None:
        section.model.external_lib = None  # it is about rollouts
        section.actor.fsdp_config.update(param_offload=offloads, optimizer_offload=offloads)
        section.actor.use_dynamic_bsz = section.rollout.log_prob_use_dynamic_bsz = True
        section.actor.ppo_max_token_len_per_gpu = section.rollout.log_prob_max_token_len_per_gpu = setting.budget

    platform = "nvidia" if setting.device == "cuda" else "cpu"
    chosen = [*place, "optim=toy", "method=rpg_rf_clip_ppo", model, *MODES[mode]]
    return build_worker(*chosen, prepare=prepare, platform=platform)


def apart(first: list[torch.Tensor], second: list[torch.Tensor]) -> float:
    """Return the largest difference between two lists of rows; NaN if there is a NaN."""
    return torch.stack([(x - y).abs().max() for x, y in zip(first, second, strict=True)]).max().item()


@pytest.mark.parametrize("case", CASES)
def test_trains_saves_loads_and_trains_again(settings, case):
    device, mode = case
    if FLASH[0] in MODES[mode] and importlib.util.find_spec("flash_attn") is None:
        pytest.skip("flash-attn is not installed")
    setting = settings(device)
    prompts = [prompt for prompt, _ in setting.lengths]
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(5, 300, (sum(pair),), generator=generator) for pair in setting.lengths]

    def log_probs(worker: Any) -> list[torch.Tensor]:
        data = batch(rows, prompts, calculate_entropy=False, compute_loss=False)
        return [row.float().cpu() for row in response_log_probs(worker.compute_log_prob, data)]

    gc.collect()  # the worker of the mode before
    if not setting.initial:
        setting.initial[:] = log_probs(worker_of(setting, "float32"))
        gc.collect()
    # frames of the imports during the first build and update keep those two workers
    kept = torch.cuda.memory_allocated() if device == "cuda" else 0
    worker = worker_of(setting, mode)
    old = log_probs(worker)
    assert apart(old, setting.initial) <= (BOUND_BF16 if BF16[0] in MODES[mode] else BOUND)
    fields = {"old_log_probs": [row + 0.1 * torch.sin(torch.arange(len(row))) for row in old]}

    def update() -> float:
        """Return the seconds of an optimizer step."""
        began = time.perf_counter()
        metrics = worker.update_actor(batch(rows, prompts, fields, **of_update(len(rows))))["metrics"]
        assert metrics["skipped_steps"] == 0  # for NaN or Inf
        return time.perf_counter() - began

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    *_, seconds = [update() for _ in range(3)]
    memory = f", {(torch.cuda.max_memory_allocated() - kept) / 1e9:.2f} GB" if device == "cuda" else ""
    print(f"figure: {mode}: {seconds * 1e3:.0f} ms an update{memory}", flush=True)  # for scripts/check_gpu.sh
    trained = log_probs(worker)
    assert apart(trained, old) > 0
    saved = setting.folder / "saved" / "actor"
    worker.actor.save_checkpoint(str(saved), None, 1, None)
    update()
    further = log_probs(worker)
    moved = apart(further, trained)
    assert moved > 0
    worker.actor.load_checkpoint(str(saved), None, False)
    assert apart(log_probs(worker), trained) <= moved / 10
    update()  # the same step from the same moments
    assert apart(log_probs(worker), further) <= moved / 10
