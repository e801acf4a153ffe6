"""Planted tokens are absent from a run's files, the page and jobs.

tests/e2e/test_two_ranks.py checks the files of verl, Ray and vLLM.
"""

import os

import pytest
import ray.job_submission

from rpg.cli import main
from rpg.config import freeze
from rpg.run import directory, start
from tests.builders.toy_run import small_run
from tests.run.test_submit import FakeClient

PLANTED = {
    "WANDB_API_KEY": "planted-wandb-0123456789",
    "HF_TOKEN": "planted-hf-0123456789",
    "RAY_AUTH_TOKEN": "planted-ray-0123456789",
}
LOGIN = "planted-login-0123456789"


@pytest.fixture(autouse=True)
def planted(bare_environment):
    os.environ.update(PLANTED)


@pytest.mark.slow
def test_the_files_of_a_run_and_its_page(tmp_path):
    run = tmp_path / "runs/one"
    run.mkdir(parents=True)
    os.environ["RAY_ADDRESS"] = f"http://me:{LOGIN}@head:8265"
    changes = {"rpg.script": "rpg_cpu", "trainer.logger": ["console", "file", "wandb"]}
    directory.prepare(freeze.freeze(small_run(run, **changes)), {})
    (run / "metrics.jsonl").write_text('{"step": 0, "data": {"val-core/toy/acc/mean@1": 0.5}}\n')
    assert {"config.yaml", "environment.json", "fingerprint.json", "history.jsonl"} <= {p.name for p in run.iterdir()}
    assert "http://***@head:8265" in (run / "environment.json").read_text()
    assert main(["plot", str(tmp_path / "runs"), "--out", str(tmp_path / "page")]) == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files for token in (*PLANTED.values(), LOGIN) if token.encode() in path.read_bytes()] == []


def test_a_job_that_would_show_one(monkeypatch, capsys):
    """The dashboard shows forwarded variables: a secret in a required one rejects the job."""
    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", FakeClient)
    monkeypatch.setattr(FakeClient, "submitted", None, raising=False)
    home = f"/data/{PLANTED['HF_TOKEN']}"
    os.environ.update({"RAY_ADDRESS": "http://head:8265", "HF_HOME": home})
    assert start.start(None, ["rpg.script=dapo_7b", "method=dapo"]) == 2
    err = capsys.readouterr().err
    assert "HF_HOME: " in err
    assert home not in err
    assert FakeClient.submitted is None
