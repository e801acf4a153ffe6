"""The socket between actor and vLLM has a unique name per run, which both sides of verl know."""

import subprocess
import sys

import pytest

from tests.e2e.conftest import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.full]

CODE = """
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
from rpg.verl_plugin import rollout
from rpg.verl_plugin.patches import vllm_server
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
assert get_rollout_class("vllm", "async") is vllm_server.ServerAdapter
assert get_rollout_replica_class("vllm") is vllm_server.vLLMReplica
there = ray.get(ray.remote(vllm_server.socket_id).remote())
print("IDS", ray.get_runtime_context().get_job_id(), vllm_server.socket_id(), there)
"""


def test_two_local_rays_have_one_job_id_and_two_socket_ids():
    ids = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True
        )
        ids += [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("IDS ")]
    (job, mine, workers), (other_job, other, _) = ids
    assert job == other_job  # why verl's own name does not do
    assert mine == workers != other
