"""Compare time and memory of the RPG losses with verl's losses.

    python scripts/bench_losses.py                     # 32 x 8192 tokens with a reference, one thread
    python scripts/bench_losses.py --device cuda

Each round runs all candidates in turn, so that other load on the machine affects all of them. A candidate runs twice in
a row and only the second run is timed, after its memory has been allocated. The result is the median over rounds of
the ratio within a round. Every candidate computes its metrics, as in a training step. Memory is the peak that one call
allocates beyond its inputs, gradient included.
"""

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig

from rpg.names import KL_SCOPES
from rpg.objectives import LOSS_NAMES, LossSpec, token_loss_summary
from rpg.objectives.tokens import compiled as compiled_summary
from rpg.verl_plugin import register
from rpg.verl_plugin.config import RPGPolicyLossConfig
from rpg.verl_plugin.policy_loss import MICRO_BATCH, MicroBatch

ROWS, TOKENS = 32, 8192
BASE = "vanilla + k3"  # verl's vanilla loss and its k3 loss, as in GRPO


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--names", nargs="*", default=list(LOSS_NAMES), choices=LOSS_NAMES, metavar="LOSS")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.set_num_threads(1)
    losses(args.names, args.rounds, torch.device(args.device))
    scopes(args.names, args.rounds, torch.device(args.device))


def losses(names: list[str], rounds: int, device: torch.device) -> None:
    """Time forward, backward and metrics of every loss, plain and compiled, and of verl's losses."""
    torch._dynamo.config.recompile_limit = 4 * len(LOSS_NAMES)  # a run compiles one loss, this process all of them
    register()
    data = make_batch(device)
    candidates = {name: functools.partial(step, name, data) for name in ("vanilla", BASE)}
    for name in names:
        candidates[name] = functools.partial(step, name, data)
        candidates[f"{name}, compiled"] = functools.partial(step, name, data, compiled=True)
    times = alternate(candidates, rounds, device)
    print(f"{ROWS} x {TOKENS} float32 with a reference, forward + backward + metrics; torch {torch.__version__}\n")
    print(f"{'':<32} {'median ms':>9} {f'time/({BASE})':>19} {'B/token':>8}")
    for name, run in candidates.items():
        ratio = statistics.median(mine / base for mine, base in zip(times[name], times[BASE], strict=True))
        memory = peak_extra_bytes(run, device) / (ROWS * TOKENS)
        print(f"{name:<32} {statistics.median(times[name]) * 1e3:9.1f} {ratio:19.2f} {memory:8.1f}")


def scopes(names: list[str], rounds: int, device: torch.device) -> None:
    """Time forward, backward and metrics of every loss with both scopes of the KL, plain and compiled."""
    data, ways = make_batch(device), {"plain": token_loss_summary, "compiled": compiled_summary(device)}
    candidates = {
        f"{name} {scope} {way}": functools.partial(scope_step, LossSpec.parse(name, kl_scope=scope), data, function)
        for name in names
        for way, function in ways.items()
        for scope in KL_SCOPES
    }
    times = alternate(candidates, rounds, device)
    print(f"\n{'kl_scope=response':<32} {'ms':>9} {'time/token':>10} {'compiled ms':>11} {'time/token':>10}")
    for name in names:
        cells = []
        for way in ways:
            token, response = (times[f"{name} {scope} {way}"] for scope in KL_SCOPES)
            ratio = statistics.median(mine / base for mine, base in zip(response, token, strict=True))
            cells += [statistics.median(response) * 1e3, ratio]
        print("{:<32} {:9.1f} {:10.2f} {:11.1f} {:10.2f}".format(name, *cells))


def scope_step(spec: LossSpec, data: dict[str, torch.Tensor], function: Callable) -> None:
    """Run forward and backward as policy_loss does, with the baseline of the later terms."""
    inputs = {("mask" if key == "response_mask" else key): tensor for key, tensor in data.items()}
    inputs["log_prob"] = data["log_prob"].detach().requires_grad_()
    if spec.has_later:
        inputs["kl_baseline"] = data["advantages"]
    losses, summary = function(spec, **inputs)
    loss = core_algos.agg_loss(losses, inputs["mask"], "token-mean")
    torch.stack([loss.detach(), *summary]).tolist()
    loss.backward()


def make_batch(device: torch.device) -> dict[str, torch.Tensor]:
    """Return responses of half to full length whose ratios reach every clip bound."""
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(ROWS, TOKENS, generator=generator) * 3
    lengths = torch.randint(TOKENS // 2, TOKENS + 1, (ROWS, 1), generator=generator)
    batch = {
        "old_log_prob": old,
        "ref_log_prob": old + torch.randn(ROWS, TOKENS, generator=generator) * 0.1,
        "log_prob": old + torch.randn(ROWS, TOKENS, generator=generator) * 0.2,
        "advantages": torch.randn(ROWS, 1, generator=generator).expand(ROWS, TOKENS).contiguous(),
        "response_mask": torch.arange(TOKENS) < lengths,
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
    """Run forward and backward as verl's ppo_loss does; RPG's losses use the reference of verl's k3."""
    config, mask = actor_config(compiled), data["response_mask"]
    log_prob = data["log_prob"].detach().requires_grad_()
    loss_mode, plus, _ = name.partition(" + ")
    MICRO_BATCH.set(MicroBatch(ref_log_prob=data["ref_log_prob"]))  # as our actor loss does; verl's losses do not look
    loss, _ = core_algos.get_policy_loss_fn(loss_mode)(
        old_log_prob=data["old_log_prob"],
        log_prob=log_prob,
        advantages=data["advantages"],
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=config,
        rollout_is_weights=None,
    )
    if plus:
        kl = core_algos.kl_penalty(log_prob, data["ref_log_prob"], "low_var_kl")
        kl_loss = core_algos.agg_loss(kl, mask, "token-mean")
        loss = loss + 1e-4 * kl_loss
        kl_loss.item()  # its metric
    loss.backward()


def alternate(candidates: dict[str, Callable], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """Return each candidate's seconds per round: the second of two runs in a row."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            run()
            synchronize()
            start = time.perf_counter()
            run()
            synchronize()
            times[name].append(time.perf_counter() - start)
    return times


def peak_extra_bytes(run: Callable, device: torch.device) -> int:
    """Return the peak memory that torch allocates during run() beyond what was allocated before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    current = peak = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        current += event["args"]["Bytes"]
        peak = max(peak, current)
    return peak


if __name__ == "__main__":
    main()
