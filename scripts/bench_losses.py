"""Time and memory of the RPG losses and advantages, against verl's own and against a copy.

    python scripts/bench_losses.py                     # 32 x 8192 tokens with a reference, one thread
    python scripts/bench_losses.py --device cuda

Every round runs each candidate in turn, so that whatever else the machine does hits all of them, twice in a row
with the second timed, so that none pays for memory that the one before it gave back to the system; what is
reported is the median over rounds of the ratio within a round. Metrics are computed in every candidate, as
in a training step. Memory is the peak of what one call allocates beyond its inputs (its gradient included).
"""

import argparse
import functools
import json
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig

from rpg.objectives import LOSS_NAMES, group_mean_advantages
from rpg.verl_plugin import register
from rpg.verl_plugin.config import RPGPolicyLossConfig

# rpg advantages: read rewards (4) and mask (1), write advantages (4)
NEEDED_BYTES_ADVANTAGES = 4 + 1 + 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--adv-rows", type=int, default=8192)
    parser.add_argument("--adv-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--names", nargs="*", default=list(LOSS_NAMES), choices=LOSS_NAMES, metavar="LOSS")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    bandwidth = copy_bandwidth(device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"cpu, {args.threads} thread(s)"
    print(f"torch {torch.__version__}, {name}; a copy of 256 MiB moves {bandwidth / 1e9:.1f} GB/s (read + write)\n")
    losses(args, device)
    advantages(args, device, bandwidth)


def losses(args: argparse.Namespace, device: torch.device) -> None:
    """Forward, backward and metrics of every loss, plain and compiled, beside verl's vanilla plus verl's k3 loss."""
    torch._dynamo.config.recompile_limit = 2 * len(LOSS_NAMES)  # a run trains one loss, this process all of them
    register()
    data = make_batch(args.rows, args.tokens, device)
    candidates: dict[str, Callable[[], None]] = {
        "vanilla (a)": functools.partial(step, "vanilla", data),
        "vanilla + k3 (b)": functools.partial(step, "vanilla + k3", data),
    }
    for name in args.names:
        candidates[name] = functools.partial(step, name, data)
        candidates[f"{name}, compiled"] = functools.partial(step, name, data, compiled=True)
    times = alternate(candidates, args.rounds, device)
    memory = {name: peak_extra_bytes(run, device) for name, run in candidates.items()}
    tokens = args.rows * args.tokens
    print(
        f"Losses, {args.rows} x {args.tokens} float32 with a reference, forward + backward + metrics, "
        f"{args.rounds} rounds\n"
    )
    print(f"{'':<32} {'median ms':>9} {'time/(a)':>9} {'time/(b)':>9} {'B/token':>8} {'mem/(b)':>8}")
    for name in candidates:
        print(
            f"{name:<32} {statistics.median(times[name]) * 1e3:9.1f} {ratio(times[name], times['vanilla (a)']):9.2f} "
            f"{ratio(times[name], times['vanilla + k3 (b)']):9.2f} {memory[name] / tokens:8.1f} "
            f"{memory[name] / memory['vanilla + k3 (b)']:8.2f}"
        )


def advantages(args: argparse.Namespace, device: torch.device, bandwidth: float) -> None:
    """`rpg` beside verl's estimator, which loops over samples for the baselines."""
    rows, tokens = args.adv_rows, args.adv_tokens
    mask = torch.arange(tokens, device=device) < torch.randint(1, tokens + 1, (rows, 1), device=device)
    rewards = torch.zeros(rows, tokens, device=device)
    rewards[torch.arange(rows), mask.sum(-1) - 1] = torch.randint(0, 2, (rows,), device=device) * 2.0 - 1.0
    index = np.array([f"prompt-{i // 16}" for i in np.random.default_rng(0).permutation(rows)], dtype=object)
    candidates: dict[str, Callable[[], object]] = {
        "verl grpo, no std": lambda: core_algos.compute_grpo_outcome_advantage(
            rewards, mask, index, norm_adv_by_std_in_grpo=False
        ),
        "rpg": lambda: group_mean_advantages(rewards, mask, index),
    }
    times = alternate(candidates, max(3, args.rounds // 4), device)
    size = rows * tokens * rewards.element_size()
    bound = NEEDED_BYTES_ADVANTAGES * rows * tokens / bandwidth
    print(f"\nAdvantages, {rows} responses x {tokens} tokens. Memory-bandwidth bound: {bound * 1e3:.1f} ms\n")
    print(f"{'':<24} {'median ms':>9} {'extra memory, in tensors':>26} {'x bound':>8}")
    for name, run in candidates.items():
        median = statistics.median(times[name])
        extra = peak_extra_bytes(run, device) / size
        print(f"{name:<24} {median * 1e3:9.1f} {extra:26.2f} {median / bound:8.1f}")


def make_batch(rows: int, tokens: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Responses of half to full length whose ratios reach every clip bound."""
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(rows, tokens, generator=generator) * 3
    lengths = torch.randint(tokens // 2, tokens + 1, (rows, 1), generator=generator)
    batch = {
        "old_log_prob": old,
        "ref_log_prob": old + torch.randn(rows, tokens, generator=generator) * 0.1,
        "log_prob": old + torch.randn(rows, tokens, generator=generator) * 0.2,
        "advantages": torch.randn(rows, 1, generator=generator).expand(rows, tokens).contiguous(),
        "response_mask": torch.arange(tokens) < lengths,
    }
    return {key: tensor.to(device) for key, tensor in batch.items()}


@functools.cache
def actor_config(compiled: bool) -> FSDPActorConfig:
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_high=0.28,
        clip_ratio_c=10.0,
        use_torch_compile=compiled,
        policy_loss=RPGPolicyLossConfig(kl_coef=1e-4),
    )


def step(name: str, data: dict[str, torch.Tensor], compiled: bool = False) -> None:
    """One forward and backward, as verl's ppo_loss does it; RPG's losses with the reference that k3 has."""
    config, mask = actor_config(compiled), data["response_mask"]
    log_prob = data["log_prob"].detach().requires_grad_()
    loss_mode, plus, _ = name.partition(" + ")
    loss, _ = core_algos.get_policy_loss_fn(loss_mode)(
        old_log_prob=data["old_log_prob"],
        log_prob=log_prob,
        advantages=data["advantages"],
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=config,
        rollout_is_weights=None,
        **({"ref_log_prob": data["ref_log_prob"]} if loss_mode in LOSS_NAMES else {}),
    )
    if plus:
        kl = core_algos.kl_penalty(log_prob, data["ref_log_prob"], "low_var_kl")
        kl_loss = core_algos.agg_loss(kl, mask, "token-mean")
        loss = loss + 1e-4 * kl_loss
        kl_loss.item()  # its metric
    loss.backward()


def alternate(candidates: dict[str, Callable], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """Seconds of each candidate in each round, of the second of two runs in a row."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            run()
            synchronize(device)
            start = time.perf_counter()
            run()
            synchronize(device)
            times[name].append(time.perf_counter() - start)
    return times


def ratio(times: list[float], reference: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(times, reference, strict=True))


def peak_extra_bytes(run: Callable, device: torch.device) -> int:
    """Peak of memory allocated during run() beyond what was there before."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return torch.cuda.max_memory_allocated() - before
    tracemalloc.start()  # numpy's allocations; torch's come from its profiler
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    _, outside_torch = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    current = peak = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        current += event["args"]["Bytes"]
        peak = max(peak, current)
    return peak + outside_torch


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second, read plus written, of a copy that fits no cache."""
    source = torch.ones(64 * 2**20, device=device)
    target = torch.zeros_like(source)
    seconds = []
    for _ in range(10):
        synchronize(device)
        start = time.perf_counter()
        target.copy_(source)
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return 2 * source.numel() * source.element_size() / min(seconds)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
