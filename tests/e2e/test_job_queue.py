"""Two of verl's runs on one Ray cluster: each has a TransferQueue of its own."""

import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.full]

# What verl's task runner does with the queue; the second job comes and goes while the first one trains.
JOB = """
import subprocess, sys
import ray
import transfer_queue as tq
from omegaconf import OmegaConf
from rpg.verl_plugin.patches import job_queue

name, address = sys.argv[1:]
job_queue.install()
of_its_own = {"num_cpus": 8, "include_dashboard": False} if address == "local" else {}
context = ray.init(address=address, log_to_driver=False, **of_its_own)
tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))

def put_and_list(key):
    tq.kv_put(key, "train", tag={"of": name})
    print("KEYS", name, *sorted(tq.kv_list("train")["train"]), flush=True)

put_and_list(f"{name}-1")
if address == "local":
    subprocess.run([sys.executable, __file__, "second", context.address_info["address"]], timeout=120, check=True)
    put_and_list(f"{name}-2")
tq.close()
"""


def test_each_job_finds_its_own_and_keeps_it(tmp_path):
    """What the jobs find in the partition "train"."""
    (tmp_path / "job.py").write_text(JOB)
    environment = {**os.environ, "RPG_JOB_QUEUE": "1", "TQ_NUM_THREADS": "1"}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py"), "first", "local"],
        capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    keys = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("KEYS ")]
    assert keys == [["first", "first-1"], ["second", "second-1"], ["first", "first-1", "first-2"]]
