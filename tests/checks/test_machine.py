"""The checks of a machine, each provoked: another nvidia-smi, a small /dev/shm; tests/run/test_plan.py has the disk."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rpg import gpu_host, plan
from rpg.checks import machine
from rpg.cli import main
from rpg.verl_plugin.resolvers import detected_memory
from tests.builders.toy_run import run_config

pytestmark = pytest.mark.usefixtures("local_cpu")
# index, UUID, name, MiB, driver, MIG
LINES = [
    "0, GPU-aaaa1111, NVIDIA H100 80GB HBM3, 81559, {0}, {1}",
    "1, GPU-bbbb2222, NVIDIA RTX 4090, 24564, {0}, [N/A]",
]
BUCKET = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"


def answers(folder: Path, driver: str, mig: str = "Disabled") -> Path:
    """Write an nvidia-smi for two unequal GPUs; return its folder, for PATH."""
    folder.mkdir(exist_ok=True)
    command = folder / "nvidia-smi"
    command.write_text("#!/bin/sh\ncat <<END\n" + "\n".join(LINES).format(driver, mig) + "\nEND\n")
    command.chmod(0o755)
    return folder


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{answers(tmp_path / 'bin', '580.65.06')}:{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "GPU_MEMORY_GB"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("value", "indices", "gigabytes"),
    [(None, [0, 1], 25.8), ("1,0", [1, 0], 25.8), ("GPU-aaaa1111", [0], 85.5), ("7", [], 24)],
)
def test_visible_gpus(two_gpus, monkeypatch, value, indices, gigabytes):
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.index for gpu in gpu_host.visible()] == indices
    assert detected_memory() == gigabytes


def test_the_smallest_gpu_must_hold_the_run(two_gpus, tmp_path, capsys):
    assert main(["plan", "grpo_7b"]) == 1
    assert "DOES NOT FIT 8 x 25.8 GB" in capsys.readouterr().out
    assert main(["plan", "grpo_7b", "rpg.gpu_memory=80"]) == 0
    answers(tmp_path / "bin", "580.65.06", "Enabled")  # a GPU in parts has no memory that is known
    assert [gpu.index for gpu in gpu_host.visible()] == [1]
    for answer in ("exit 9", "echo a,b,c,d,e,f"):
        (tmp_path / "bin/nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
        assert gpu_host.visible() == []


@pytest.mark.parametrize(("free", "settings", "is_short"), [
    (64, {BUCKET: 128}, True),  # docker's /dev/shm
    (64, {BUCKET: 16}, False),
    (64, {BUCKET: 48, "trainer.n_gpus_per_node": 2}, True),
    (128, {BUCKET: 128}, False),  # a bucket never allocates more than the 100 MB of weights
    (64, {"trainer.device": "cuda"}, True),  # 1 GiB for NCCL, and vLLM's queue
    (1184, {"trainer.device": "cuda"}, False),
])  # fmt: skip
def test_shared_memory(monkeypatch, free, settings, is_short):
    """Of 25 million parameters in one embedding."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: {"/dev/shm": SimpleNamespace(free=free * 2**20)}[path])
    monkeypatch.setattr(machine, "shape_of", lambda model: plan.Shape(25000, 0, 1, 1, 1, 1, 1000, True))
    assert [found.key for found in machine.shared_memory(run_config(settings))] == ["/dev/shm"] * is_short
