"""scripts/gpu_losses.py and gpu_engine.py on the CPU with small sizes, without the packages that they do not need."""

import json
import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT

pytestmark = pytest.mark.slow

# run a script as __main__ in a process that cannot import some packages, and no Ray that has been started
WITHOUT = """
import runpy, sys
script, missing, *arguments = sys.argv[1:]
sys.modules.update(dict.fromkeys(missing.split(",")))
sys.path.insert(0, "scripts")
sys.argv = [script, *arguments]
try:
    runpy.run_path(script, run_name="__main__")
finally:
    ray = sys.modules.get("ray")
    assert ray is None or not ray.is_initialized()
"""


def report(script: str, missing: str, *arguments: str) -> dict:
    """Return the script's JSON."""
    command = [sys.executable, "-c", WITHOUT, f"scripts/{script}", missing, "--device", "cpu", "--small", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_the_losses_without_verl_ray_vllm_and_transformers(tmp_path):
    found = report("gpu_losses.py", "verl,ray,vllm,transformers,tensordict,hydra,omegaconf,datasets,pandas")
    assert found["failed"] == 0
    figures = {check["check"]: check["figures"] for check in found["checks"]}
    assert figures["torch.compile, 1 losses, 4 shapes"]["graphs"] == 1
    assert float(figures["exact gradients, float64"]["largest error"]) < 1e-12
    (tmp_path / "losses.json").write_text(json.dumps(found))
    command = [sys.executable, "scripts/gpu_report.py", str(tmp_path / "losses.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    table = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "| exact gradients, float64 | ok |" in table.stdout


@pytest.mark.full  # importing verl's engines alone takes ten seconds
def test_the_engine_without_vllm_and_ray_s_cluster():
    modes = ["bfloat16", "schedule-free, offloaded", "LoRA"]
    found = report("gpu_engine.py", "vllm,sglang,flash_attn", "--checks", *modes)
    assert found["failed"] == 0
    assert [check["check"] for check in found["checks"]] == ["a random model", "float32", *modes]
    bfloat16 = float(found["checks"][2]["figures"]["log-probs apart"])
    assert 1e-4 < bfloat16 < 0.5


def test_a_failed_check_is_counted():
    """A check that cannot run does not stop the others, and the exit code says so."""
    code = """
import sys
sys.path.insert(0, "scripts")
from gpu_report import Report, within
report = Report("x", "cpu")
report.check("NaN", lambda: {"error": within("error", float("nan"), 1.0)})
report.check("broken", lambda: {}["missing"])
report.check("fine", lambda: {"error": within("error", 0.5, 1.0)})
sys.exit(report.end())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [check["ok"] for check in found["checks"]] == [False, False, True]
    assert found["failed"] == 2
