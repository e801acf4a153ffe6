"""A launch script against a real Ray cluster, started as docs/gpu.md says, and under SLURM.

The nodes are processes of this machine, ended one by one: `ray stop` would end all Rays of the machine.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray

from tests.e2e.conftest import PATIENCE, ROOT, SCRIPT, Run
from tests.e2e.ports import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.full]

RAY = str(Path(sys.executable).parent / "ray")


class Cluster:
    """Ray nodes on this machine's own address, with one logical GPU each.

    Their token is in a home of their own, as a local run leaves one in ~/.ray.
    """

    def __init__(self, directory: Path, cpus: int = 16, **env: str):
        self.cpus = cpus
        self.port, self.dashboard = free_port(), free_port()
        self.address = ray.util.get_node_ip_address()
        self.url = f"http://{self.address}:{self.dashboard}"
        self.directory = directory
        self.nodes: list[Run] = []
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "RAY_AUTH_MODE": "token", "HOME": str(directory)}
        (directory / ".ray").mkdir()
        (directory / ".ray/auth_token").write_text(secrets.token_hex(32))
        self.env.update(env)

    def start(self, *arguments: str) -> None:
        options = [f"--num-cpus={self.cpus}", "--num-gpus=1", "--disable-usage-stats"]
        options.append(f"--dashboard-agent-listen-port={free_port()}")
        command = ["env", "-C", str(self.directory), RAY, "start", "--block", *options, *arguments]
        self.nodes.append(Run(command, self.directory / f"node{len(self.nodes)}", **self.env))
        self.wait_for_nodes(len(self.nodes))

    def start_head(self) -> None:
        self.start(
            "--head",
            f"--node-ip-address={self.address}",
            f"--dashboard-host={self.address}",
            f"--port={self.port}",
            f"--dashboard-port={self.dashboard}",
            f"--ray-client-server-port={free_port()}",
        )

    def start_worker(self) -> None:
        self.start(f"--address={self.address}:{self.port}")

    def wait_for_nodes(self, wanted: int, limit: float = PATIENCE) -> None:
        began, state = time.monotonic(), ""
        while time.monotonic() - began < limit:
            state = self.ray("list", "nodes", "--address", self.url, "--format", "json", check=False)
            with contextlib.suppress(json.JSONDecodeError):
                if sum(node["state"] == "ALIVE" for node in json.loads(state)) == wanted:
                    return
            time.sleep(1)
        logs = "\n".join(node.text() for node in self.nodes)
        raise TimeoutError(f"no {wanted} nodes after {limit} s: {state}\n{logs}")

    def wait_for_jobs(self, limit: float = PATIENCE) -> None:
        """Wait until the head accepts jobs, some seconds after its node is alive."""
        submit = ["job", "submit", "--address", self.url, "--no-wait", "--", "true"]
        began, said = time.monotonic(), ""
        while "submitted successfully" not in said:
            assert time.monotonic() - began < limit, said
            said = self.ray(*submit, check=False)
            time.sleep(1)

    def ray(self, *arguments: str, check: bool = True) -> str:
        assert self.nodes[-1].process.poll() is None, self.nodes[-1].text()
        done = subprocess.run(
            [RAY, *arguments], env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout

    def stop(self) -> None:
        for node in self.nodes:
            node.end()
            node.process.wait()


@contextlib.contextmanager
def head(directory: Path, cpus: int = 16, **env: str) -> Iterator[Cluster]:
    """Return a cluster of one node; env: extra environment variables of `ray start`."""
    directory.mkdir()
    cluster = Cluster(directory, cpus, **env)
    try:
        cluster.start_head()
        cluster.wait_for_jobs()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(tmp_path):
    with head(tmp_path / "cluster") as cluster:
        yield cluster


SHORT = ["trainer.total_training_steps=2", "trainer.test_freq=-1", "trainer.val_before_train=false", "rpg.console=full"]


def submit(cluster: Cluster, directory: Path, name: str, *overrides: str) -> Run:
    """Start the script from a directory against the cluster; name: of the folder with its output."""
    command = ["env", "-C", str(directory), "bash", str(SCRIPT), *SHORT, *overrides]
    return Run(command, directory / name, **{**cluster.env, "RAY_ADDRESS": cluster.url})


def steps(directory: Path) -> list[int]:
    [metrics] = directory.glob("checkpoints/*/metrics.jsonl")
    return [json.loads(line)["step"] for line in metrics.read_text().splitlines()]


def test_script_from_another_directory_runs_as_a_job(cluster, tmp_path):
    """A second submission is refused by Ray while the job runs."""
    job, named = "mine,lr=3e-3", ['trainer.experiment_name="mine,lr=3e-3"']
    first = submit(cluster, tmp_path, "first", *named)
    while f"Job '{job}' submitted successfully" not in first.text():
        assert first.process.poll() is None, first.text()
        time.sleep(0.2)
    second = submit(cluster, tmp_path, "second", *named)
    assert second.wait() == 1
    assert f"Job with submission_id {job} already exists" in second.text()
    assert first.wait() == 0, first.text()[-6000:]
    assert f"Job '{job}' succeeded" in first.text()
    assert steps(tmp_path)[-1] == 2
    assert "Training Progress" in cluster.ray("job", "logs", "--address", cluster.url, job)

    # a run that is finished has nothing left to do; files are looked at where the job runs
    again = submit(cluster, tmp_path, "again", *named)
    assert (again.wait(), f"Job '{job}.2' succeeded" in again.text()) == (0, True), again.text()[-3000:]
    assert "finished at step 2 of 2" in again.text()
    refused = submit(cluster, tmp_path, "refused", "actor_rollout_ref.model.path=/nowhere/model")
    assert refused.wait() == 1
    assert "/nowhere/model" in refused.text()


def test_a_start_that_waits_for_cpus_ends_at_the_stall_limit(tmp_path):
    """A node with 4 CPUs, of which TransferQueue takes 2: verl's 3 for one GPU would be waited for without end."""
    with head(tmp_path / "cluster", cpus=4) as cluster:
        run = submit(cluster, tmp_path, "job", "rpg.stall_limit=60")
        assert run.wait() == 1, run.text()[-3000:]
    assert "rpg.stall_limit=60" in run.text()
    assert "(most recent call first)" in run.text()


def test_a_stall_ends_the_run_on_two_nodes(cluster, tmp_path):
    """Ray loses TransferQueue's storage: the trainer's stack is in the job's log, no actor of either node is left."""

    def actors(beginning: str = "ray::") -> list[psutil.Process]:
        found = [process for node in cluster.nodes for process in node.named(beginning)]
        return [process for process in found if "IDLE" not in process.cmdline()[0]]

    cluster.start_worker()
    of_cluster = {*actors()}
    overrides = ["trainer.nnodes=2", "rpg.stall_limit=240", "trainer.total_training_steps=50"]
    run = submit(cluster, tmp_path, "job", *overrides)
    while not [*tmp_path.glob("checkpoints/*/metrics.jsonl")]:
        assert run.process.poll() is None, run.text()[-3000:]
        time.sleep(1)
    assert [len(node.named("ray::WorkerDict")) for node in cluster.nodes] == [1, 1]
    [storage] = actors("ray::SimpleStorageUnit")
    os.kill(storage.pid, signal.SIGABRT)
    assert run.wait() == 1, run.text()[-3000:]
    assert "rpg.stall_limit=240" in run.text()
    assert re.search(r"File .*trainer_base.py.* in (fit|step|_step_once)", run.text())
    until = time.monotonic() + 60
    while left := {*actors()} - of_cluster:
        assert time.monotonic() < until, left
        time.sleep(1)


SRUN = f"""#!/bin/bash
while [[ $1 == -* ]]; do shift; done
port=$(python3 {ROOT}/tests/e2e/ports.py)
[[ "$1 $2" != "ray start" ]] || set -- "$@" --num-cpus=16 --num-gpus=1 --dashboard-agent-listen-port=$port
exec "$@"
"""


def test_the_sbatch_file_runs_a_script_on_two_nodes(tmp_path):
    """With stand-ins for SLURM: two nodes that are this machine, with one GPU each, share the actor.

    Nothing of the two Rays remains.
    """
    for name, text in (("srun", SRUN), ("scontrol", "#!/bin/sh\nprintf 'node-a\\nnode-b\\n'\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "node-[a-b]",
        "RAY_PORT": str(free_port()),
        "RAY_DASHBOARD_PORT": str(free_port()),
        "CKPTS_DIR": str(tmp_path / "checkpoints"),
        "PYTHON": sys.executable,
    }
    command = ["bash", str(ROOT / "scripts/cluster/slurm.sbatch"), str(SCRIPT), *SHORT]
    run = Run(command, tmp_path, **env)
    try:
        assert run.wait() == 0, run.text()[-6000:]
        assert steps(tmp_path)[-1] == 2
        assert run.survivors() == []
    finally:
        run.end()
