"""The socket between actor and vLLM has a name of its own in every run, and both sides of verl's know it."""

import subprocess
import sys

import pytest

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
