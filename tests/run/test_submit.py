"""Submission to a cluster; the real cluster is in tests/e2e/test_cluster.py."""

import os
import signal
import sys
import types
import typing

import pytest
import ray.job_submission

from rpg.registry.scripts import home
from rpg.run import start, submit
from rpg.run.signals import IN_JOB

COMMAND = ["-m", "rpg.run", "name"]
pytestmark = pytest.mark.usefixtures("bare_environment")


class FakeClient:
    """Ray's JobSubmissionClient as far as submit uses it."""

    status, exit_code = "SUCCEEDED", 0
    submitted: types.SimpleNamespace | None = None
    jobs: tuple = ()
    states: typing.ClassVar[list] = []  # before the last one

    def __init__(self, address):
        self.address = address

    def submit_job(self, **job):
        FakeClient.submitted = types.SimpleNamespace(address=self.address, **job)
        return "raysubmit_1"

    def list_jobs(self):
        return self.jobs

    def get_job_info(self, job):
        status = ray.job_submission.JobStatus(self.states.pop(0) if self.states else self.status)
        return types.SimpleNamespace(status=status, message="", driver_exit_code=self.exit_code)


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", FakeClient)
    monkeypatch.setattr(submit, "LOGS", (sys.executable, "-c", "import sys; print('log of', sys.argv[1])"))
    monkeypatch.setattr(FakeClient, "states", ["RUNNING"])
    monkeypatch.setattr(FakeClient, "submitted", None)
    os.environ["RAY_ADDRESS"] = "http://head:8265"
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield FakeClient
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_job_brings_the_packages_and_the_plugin(tmp_path):
    os.environ.update(NNODES="2", MODEL_PATH="/models/m", CKPTS_DIR="here", WANDB_API_KEY="secret", OTHER="x")
    os.environ["VERL_USE_EXTERNAL_MODULES"] = "mine,rpg.verl_plugin.autoload"
    env = submit.runtime_env()
    (package,) = env["py_modules"]
    assert os.path.basename(package) == "rpg"
    assert os.path.isfile(f"{package}/recipe/config/rpg_trainer.yaml")  # through the link
    assert env["env_vars"] == {
        IN_JOB: "1",
        "RPG_HOME": str(home()),
        "CKPTS_DIR": str(tmp_path / "here"),  # the job runs in a directory of Ray's
        "VERL_USE_EXTERNAL_MODULES": "mine,rpg.verl_plugin.autoload",
        "MODEL_PATH": "/models/m",
        "NNODES": "2",
    }


def test_what_the_hub_and_the_network_need_goes_along_and_keys_do_not(client, capsys):
    plain = {"HF_ENDPOINT": "https://mirror.example.org", "NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    secret = {"HF_TOKEN": "hf_1", "WANDB_API_KEY": "w_2", "WANDB_BASE_URL": "https://me:pass_3@wandb.example.org"}
    os.environ.update(plain, **secret)
    assert submit.submit("name", COMMAND) == 0
    assert plain.items() <= client.submitted.runtime_env["env_vars"].items()
    told = capsys.readouterr().err
    assert all(name in told for name in secret)
    assert not any(key in told + str(client.submitted) for key in ("hf_1", "w_2", "pass_3"))


def test_a_secret_in_a_variable_that_goes_along_rejects_the_job(client, capsys):
    """The dashboard would show it."""
    os.environ.update(HF_TOKEN="planted-0123456789", HF_HOME="/data/planted-0123456789")
    assert start.start(None, ["method=dapo"]) == 2
    told = capsys.readouterr().err
    assert "HF_HOME: " in told
    assert "planted" not in told
    assert client.submitted is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_following_and_not_the_job(client, capsys, monkeypatch, number, code):
    waits = f"import os, time; os.kill(os.getppid(), {int(number)}); time.sleep(60)"
    monkeypatch.setattr(submit, "LOGS", (sys.executable, "-c", waits))
    monkeypatch.setattr(FakeClient, "states", ["RUNNING"] * 9)
    signal.signal(signal.SIGHUP, lambda number, frame: pytest.fail("nobody's"))
    assert submit.submit("name", COMMAND) == code
    assert "raysubmit_1" in capsys.readouterr().err


def test_a_lost_log_is_shown_again_while_the_job_runs(client, capfd, monkeypatch):
    monkeypatch.setattr(FakeClient, "states", ["RUNNING", "RUNNING"])
    assert submit.submit("name", COMMAND) == 0
    assert capfd.readouterr().out == "log of raysubmit_1\n" * 2


def test_main_submits_its_own_overrides(client, capfd):
    """tests/e2e/test_cluster.py asks a cluster for the job's name."""
    assert start.start("dapo_7b", ["method=dapo", "trainer.project_name='a b'"]) == 0
    command = "python3 -m rpg.run dapo_7b method=dapo "
    quoted = "'trainer.project_name='\"'\"'a b'\"'\"''"  # for a shell
    assert client.submitted.entrypoint.startswith(f"{command}{quoted} 'trainer.experiment_name=")
    assert capfd.readouterr().out == "log of raysubmit_1\n"


def test_the_jobs_exit_code_is_ours(client, monkeypatch):
    for status, code, expected in (("FAILED", 2, 2), ("STOPPED", None, 1)):
        monkeypatch.setattr(client, "status", status)
        monkeypatch.setattr(client, "exit_code", code)
        assert submit.submit("name", COMMAND) == expected


@pytest.mark.parametrize(
    ("other", "followed"),
    [
        ({}, True),
        ({"entrypoint": "python3 -m rpg.run dapo_7b"}, False),
        ({"status": "FAILED"}, False),
        ({"runtime_env": {"env_vars": {"CKPTS_DIR": "/elsewhere"}}}, False),
    ],
)
def test_the_same_command_follows_its_job(client, monkeypatch, capsys, other, followed):
    parent = {"env_vars": {"CKPTS_DIR": os.path.abspath("checkpoints")}}
    job = {"entrypoint": "python3 -m rpg.run grpo_7b", "status": "RUNNING", "runtime_env": parent}
    job = {**job, **other, "submission_id": "raysubmit_0"}
    job["status"] = ray.job_submission.JobStatus(job["status"])
    monkeypatch.setattr(client, "jobs", (types.SimpleNamespace(**job),))
    assert submit.submit("grpo_7b", ["-m", "rpg.run", "grpo_7b"]) == 0
    assert ("raysubmit_0 on http://head:8265, already running" in capsys.readouterr().err) == followed
    assert (client.submitted is None) == followed
