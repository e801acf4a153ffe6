"""The socket between actor and vLLM has a name per run, which both sides know; a transfer that nobody takes ends."""

import subprocess
import sys

import pytest

from tests.e2e.conftest import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.full]

CODE = """
import os
os.environ.update(RANK="1", RAY_LOCAL_WORLD_SIZE="2", VERL_PLATFORM="cpu")  # a rank whose server another calls
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
from rpg.verl_plugin import rollout
from rpg.verl_plugin.patches import vllm_server
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
assert get_rollout_class("vllm", "async") is vllm_server.ServerAdapter
assert get_rollout_replica_class("vllm") is vllm_server.vLLMReplica
there = ray.get(ray.remote(vllm_server.socket_id).remote())
import asyncio, torch
from verl.workers.config import CheckpointEngineConfig, RolloutConfig
vllm_server.TRANSFER_LIMIT = 1
buckets = CheckpointEngineConfig(update_weights_bucket_megabytes=1)
config = RolloutConfig(name="vllm", tensor_model_parallel_size=2, checkpoint_engine=buckets)
adapter = vllm_server.ServerAdapter(config, None, None)
try:
    asyncio.run(adapter.update_weights(iter([("weight", torch.ones(1))])))
    raise AssertionError("weights that nobody took")
except TimeoutError as error:
    assert "took none of the weights for 1 s" in str(error)
print("IDS", ray.get_runtime_context().get_job_id(), vllm_server.socket_id(), there)
"""


def test_two_local_rays_have_one_job_id_and_two_socket_ids_and_no_transfer_waits_for_ever():
    ids = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True
        )
        ids += [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("IDS ")]
    (job, mine, workers), (other_job, other, _) = ids
    assert job == other_job  # why verl's own name does not do
    assert mine == workers != other
