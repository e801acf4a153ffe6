"""Submission to a cluster; the real cluster is in tests/e2e/test_cluster.py."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray.job_submission

from rpg.registry.scripts import home
from rpg.run import start, submit
from tests.builders.toy_run import run_config

COMMAND = ["-m", "rpg.run", "name"]
pytestmark = pytest.mark.usefixtures("bare_environment")


class Became(Exception):
    """This process would be another program now; args: its own arguments."""


@pytest.fixture
def cluster(monkeypatch):
    """Stand in for a cluster's client and for the program that this process becomes."""

    def become(program: str, arguments: list[str]) -> None:
        raise Became(*arguments)

    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", lambda address: SimpleNamespace(list_jobs=list))
    monkeypatch.setattr(os, "execv", become)
    os.environ["RAY_ADDRESS"] = "http://head:8265"


def submitted(start: Callable[[], Any]) -> dict[str, str]:
    """Return the options of the `ray job submit` that this process becomes, and the job's command as `--`."""
    with pytest.raises(Became) as became:
        start()
    arguments = list(became.value.args)
    assert arguments[:5] == [sys.executable, "-m", "ray.scripts.scripts", "job", "submit"]
    options, job = arguments[5 : arguments.index("--")], arguments[arguments.index("--") + 1 :]
    return {**dict(zip(options[::2], options[1::2], strict=True)), "--": shlex.join(job)}


def test_the_job_brings_the_packages_and_the_plugin(tmp_path):
    os.environ.update(NNODES="2", MODEL_PATH="/models/m", CKPTS_DIR="here", WANDB_API_KEY="secret", OTHER="x")
    os.environ["VERL_USE_EXTERNAL_MODULES"] = "mine,rpg.verl_plugin.autoload"
    env = submit.runtime_env()
    (package,) = env["py_modules"]
    assert os.path.basename(package) == "rpg"
    assert os.path.isfile(f"{package}/recipe/config/rpg_trainer.yaml")  # through the link
    assert env["env_vars"] == {
        submit.IN_JOB: "1",
        "RPG_HOME": str(home()),
        "CKPTS_DIR": str(tmp_path / "here"),  # the job runs in a directory of Ray's
        "VERL_USE_EXTERNAL_MODULES": "mine,rpg.verl_plugin.autoload",
        "MODEL_PATH": "/models/m",
        "NNODES": "2",
    }


def test_what_the_hub_and_the_network_need_goes_along_and_keys_do_not(cluster, capsys):
    plain = {"HF_ENDPOINT": "https://mirror.example.org", "NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    secret = {"HF_TOKEN": "hf_1", "WANDB_API_KEY": "w_2", "WANDB_BASE_URL": "https://me:pass_3@wandb.example.org"}
    os.environ.update(plain, **secret)
    job = submitted(lambda: submit.submit(run_config(), COMMAND))
    assert plain.items() <= json.loads(job["--runtime-env-json"])["env_vars"].items()
    told = capsys.readouterr().err
    assert all(name in told for name in secret)
    assert not any(key in told + str(job) for key in ("hf_1", "w_2", "pass_3"))


def test_the_job_has_the_runs_name_and_command(cluster):
    job = submitted(lambda: start.start("dapo_7b", ["method=dapo", "trainer.project_name='a b'"]))
    assert job["--address"] == "http://head:8265"
    assert job["--submission-id"] == "dapo_7b,method=dapo"
    quoted = "'trainer.project_name='\"'\"'a b'\"'\"''"  # for a shell
    assert job["--"].startswith(f"python3 -m rpg.run dapo_7b method=dapo {quoted} 'trainer.experiment_name=")


def test_the_job_of_a_users_script_has_what_its_typed_method_leaves_of_it(cluster, tmp_path):
    own, script = ["method=rpg_rf", "clip=0.1_0.1", "profile=gpu"], tmp_path / "mine.sh"
    script.write_text(f'script=$(readlink -f "$0") && exec bash launch.sh "$script" {" ".join(own)} "$@"')
    job = submitted(lambda: start.start(str(script), [*own, "method=grpo"]))
    assert job["--"].startswith(
        "python3 -m rpg.run mine method=rpg_rf profile=gpu method=grpo 'trainer.experiment_name"
    )
