"""The socket between actor and vLLM has a name of its own in every run, and both sides of verl's know it."""

import os
import subprocess
import sys

import pytest

from rpg.data.template import format_prompt
from rpg.toy import model as toy_model
from tests.e2e.conftest import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.full]

IDS = """
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
from rpg.verl_plugin.patches.socket_name import socket_id
there = ray.get(ray.remote(socket_id).remote())
print("IDS", ray.get_runtime_context().get_job_id(), socket_id(), there)
"""
CLASSES = """
from rpg.verl_plugin import rollout
from rpg.verl_plugin.patches import socket_name
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
assert get_rollout_class("vllm", "async") is socket_name.ServerAdapter
assert get_rollout_replica_class("vllm") is socket_name.vLLMReplica
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_local_rays_have_one_job_id_and_two_socket_ids():
    found = [line.split()[1:] for _ in range(2) for line in python(IDS).splitlines() if line.startswith("IDS ")]
    (job, mine, workers), (other_job, other, _) = found
    assert job == other_job  # why verl's own name does not do
    assert mine == workers != other


def test_verl_finds_our_two_sides():
    python(CLASSES)


SEPARATE = """
import sys
import ray
from omegaconf import OmegaConf
from rpg.launching.compose import compose_config, resolve

overrides = ["profile=cpu", "model=toy", "dataset=toy", "rpg.script=x", f"actor_rollout_ref.model.path={sys.argv[1]}"]
config = OmegaConf.create(resolve(compose_config(overrides)).config).actor_rollout_ref
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)

@ray.remote(max_calls=1)  # each in a process that has imported nothing of ours but the plugin
def actors_side(rollout, model):
    # verl's worker of a rollout with GPUs of its own
    import os
    import tempfile
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0",
                      RAY_LOCAL_WORLD_SIZE="1", DIST_INIT_METHOD=f"file://{tempfile.mkdtemp()}/meeting")
    from verl.checkpoint_engine.base import CheckpointEngineWorker
    return CheckpointEngineWorker(rollout, model, replica_rank=0).server_adapter.zmq_handle

from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig
model = omega_conf_to_dataclass(config.model, dataclass_type=HFModelConfig)
without = config.rollout.copy()
without.checkpoint_engine.custom_backend_module = None
handles = [actors_side.remote(omega_conf_to_dataclass(rollout), model) for rollout in (config.rollout, without)]

from rpg.verl_plugin.patches.socket_name import socket_id
print("OURS", *(f"zmq-{socket_id()}-replica-0" in handle for handle in ray.get(handles)))
"""


def test_a_rollout_with_gpus_of_its_own_takes_our_side(tmp_path):
    """trainer_mode=separate_async; without the key of the recipe the worker waits at verl's own socket."""
    settings = toy_model.ToyModelSettings()
    tokenizer = toy_model.build_tokenizer([format_prompt("1 + 1"), "2"], settings.vocab_size)
    toy_model.build_model(tokenizer, settings).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", SEPARATE, str(tmp_path / "model")], capture_output=True, text=True, timeout=PATIENCE,
        check=False, env={**os.environ, "VERL_PLATFORM": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OURS True False" in done.stdout
