"""The memory that `rpg plan` computes for the toy, against what verl's own worker allocates, on one and two ranks."""

import json
import os
from pathlib import Path

import pytest
import torch
from test_worker import ROOT, model  # noqa: F401
from tiny_fsdp import on_ranks

from rpg.checks import memory
from rpg.checks.estimate import shape_of

pytestmark = pytest.mark.full  # importing verl's engines alone takes ten seconds of processor time

CONFIG = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=x"]


def toy_config(devices: int) -> dict:
    from omegaconf import OmegaConf

    from rpg.launching.compose import compose_config

    return OmegaConf.to_container(compose_config([*CONFIG, f"trainer.n_gpus_per_node={devices}"]), resolve=True)  # type: ignore[return-value]


def data(rows: int, config: dict, **extra):
    """Rows of full length, as the trainer would hand them to one rank."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu

    prompt, response = config["data"]["max_prompt_length"], config["data"]["max_response_length"]
    tokens = torch.randint(5, 300, (rows, prompt + response))

    def nested(values):
        return torch.nested.as_nested_tensor(list(values), layout=torch.jagged)

    ones, zeros = torch.ones(rows, response, dtype=torch.long), torch.zeros(rows, response)
    made = TensorDict(
        {
            "input_ids": nested(tokens),
            "position_ids": nested(torch.arange(prompt + response).expand(rows, -1).clone()),
            "prompts": nested(tokens[:, :prompt]),
            "responses": nested(tokens[:, prompt:]),
            "response_mask": nested(ones),
            "loss_mask": nested(ones),
            "advantages": nested(1.0 - 2.0 * (tokens[:, prompt:] % 2)),
            "old_log_probs": nested(zeros),
        },
        batch_size=rows,
    )
    tu.assign_non_tensor(made, temperature=1.0, global_token_num=[prompt + response] * rows, **extra)
    return made


def measure(directory: str) -> None:
    """Every allocation and release of torch's CPU allocator, from before the worker is built."""
    devices, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    os.environ.update(VERL_PLATFORM="cpu", RANK=str(rank), WORLD_SIZE=str(devices), RPG_HOME=str(ROOT))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    from omegaconf import OmegaConf

    from rpg.verl_plugin.worker import RPGActorRolloutRefWorker

    config = toy_config(devices)
    section = OmegaConf.create(config["actor_rollout_ref"])
    section.rpg = {"reference": config["rpg"]["reference"], "directory": directory, "nonfinite_limit": 3}
    prompts, mini, n = config["data"]["train_batch_size"], section.actor.ppo_mini_batch_size, section.rollout.n
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        worker = RPGActorRolloutRefWorker(config=section, role="actor")
        worker.init_model()
        for phase in ("first", "second"):  # the first step makes the moments
            with torch.profiler.record_function(f"{phase} log_prob"):
                batch = data(prompts * n // devices, config, calculate_entropy=True, compute_loss=False)
                worker.compute_log_prob(batch)
                del batch
            with torch.profiler.record_function(f"{phase} update"):
                batch = data(
                    prompts * n // devices, config, calculate_entropy=False, global_batch_size=mini * n,
                    mini_batch_size=mini * n, epochs=1, seed=1, dataloader_kwargs={"shuffle": False},
                )  # fmt: skip
                worker.update_actor(batch)
                del batch
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    spans = {e.name(): (e.start_ns(), e.end_ns()) for e in events if e.name().startswith("second ")}
    held, peaks = 0, dict.fromkeys(spans, 0)
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        for name, (begin, end) in spans.items():
            if begin <= event.start_ns() <= end:
                peaks[name] = max(peaks[name], held)
    if rank == 0:
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
        size = planned[name].size - memory.OUTSIDE
        print(f"{devices} ranks, {name}: {size / 1e6:.1f} MB, measured {measured[span] / 1e6:.1f} MB")
        assert size == pytest.approx(measured[span], rel=0.15)
