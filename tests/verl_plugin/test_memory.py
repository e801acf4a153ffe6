"""The memory that `rpg plan` computes for the toy, against what verl's own worker allocates, on one and two ranks."""

import json
from pathlib import Path

import pytest
import torch
from real_worker import TOY, batch, build_worker, of_update
from test_worker import model  # noqa: F401
from tiny_fsdp import on_ranks

from rpg.checks import memory
from rpg.checks.estimate import shape_of

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

PROFILE = ["profile=cpu", "optim=toy"]


def toy_config(devices: int) -> dict:
    from omegaconf import OmegaConf

    from rpg.launching.compose import compose_config

    composed = compose_config([*TOY, *PROFILE, f"trainer.n_gpus_per_node={devices}"])
    return OmegaConf.to_container(composed, resolve=True)  # type: ignore[return-value]


def measure(directory: str) -> None:
    """Every allocation and release of torch's CPU allocator, from before the worker is built."""
    devices = torch.distributed.get_world_size()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        config = toy_config(devices)
        worker = build_worker(*PROFILE)
        data, section = config["data"], config["actor_rollout_ref"]
        n, mini_batch = section["rollout"]["n"], section["actor"]["ppo_mini_batch_size"]
        prompt, response = data["max_prompt_length"], data["max_response_length"]
        number = data["train_batch_size"] * n // devices  # of full length
        tokens = torch.randint(5, 300, (number, prompt + response))
        for phase in ("first", "second"):  # the first step makes the moments
            with torch.profiler.record_function(f"{phase} log_prob"):
                asked = batch(tokens, [prompt] * number, calculate_entropy=True, compute_loss=False)
                worker.compute_log_prob(asked)
                del asked
            with torch.profiler.record_function(f"{phase} update"):
                old = {"old_log_probs": torch.zeros(number, response)}
                asked = batch(tokens, [prompt] * number, old, **of_update(mini_batch * n))
                worker.update_actor(asked)
                del asked
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    spans = {e.name(): (e.start_ns(), e.end_ns()) for e in events if e.name().startswith("second ")}
    held, peaks = 0, dict.fromkeys(spans, 0)
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        for name, (begin, end) in spans.items():
            if begin <= event.start_ns() <= end:
                peaks[name] = max(peaks[name], held)
    if torch.distributed.get_rank() == 0:
        Path(directory, "measured.json").write_text(json.dumps(peaks))


@pytest.mark.parametrize("devices", [1, 2])
def test_the_planned_peak_is_what_the_worker_allocates(devices, tmp_path):
    on_ranks(devices, measure, str(tmp_path))
    measured = json.loads((tmp_path / "measured.json").read_text())
    config = toy_config(devices)
    shape = shape_of(config["actor_rollout_ref"]["model"]["path"])
    assert shape is not None
    planned = {phase.name: phase for phase in memory.phases(shape, config, devices, 80e9)}
    for span, name in (("second log_prob", "log-probs"), ("second update", "update")):
        assert planned[name].size - memory.OUTSIDE == pytest.approx(measured[span], rel=0.15)
