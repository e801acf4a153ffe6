"""The checks of a machine with GPUs, each provoked without one: another nvidia-smi, no headers, little /dev/shm."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from rpg import gpu_host
from rpg.checks import machine
from rpg.config.compose import compose
from rpg.verl_plugin.resolvers import detected_memory

ROOT = Path(__file__).parents[2]
# index, UUID, name, MiB, driver, MIG
LINES = [
    "0, GPU-aaaa1111, NVIDIA H100 80GB HBM3, 81559, {0}, {1}",
    "1, GPU-bbbb2222, NVIDIA RTX 4090, 24564, {0}, [N/A]",
]
RUN = ("trainer.experiment_name=t", "trainer.n_gpus_per_node=1")


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
    for name in ("CUDA_VISIBLE_DEVICES", "GPU_MEMORY_GB", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("value", "indices", "gigabytes"),
    [
        (None, [0, 1], 25.8),
        ("0", [0], 85.5),
        ("1,0", [1, 0], 25.8),
        ("GPU-aaaa", [0], 85.5),
        ("GPU-bbbb2222, 0", [1, 0], 25.8),
        ("0,7,1", [0], 85.5),  # CUDA stops at the first that is none
        ("GPU-", [], 24),
    ],
)
def test_visible_gpus(two_gpus, monkeypatch, value, indices, gigabytes):
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.index for gpu in gpu_host.visible()] == indices
    assert detected_memory() == gigabytes


def test_the_smallest_gpu_must_hold_the_run(two_gpus):
    (found,) = machine.memory(compose(None, [*RUN, "trainer.device=cuda"])[0])
    assert "25.8 GB do not hold the run: update" in str(found)


def test_a_gpu_in_parts_has_no_memory_that_is_known(two_gpus, tmp_path):
    answers(tmp_path / "bin", "580.65.06", "Enabled")
    assert [gpu.index for gpu in gpu_host.visible()] == [1]


@pytest.mark.parametrize("answer", ["exit 9", "echo a,b,c,d,e,f"])
def test_an_nvidia_smi_that_finds_nothing(tmp_path, monkeypatch, answer):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert gpu_host.present() == []


def setup_gpu(**environment: str) -> str:
    """Return what scripts/setup_gpu.sh says before it installs anything."""
    given = {**os.environ, "PYTHON": sys.executable, "FLASH_ATTN": "0", **environment}
    done = subprocess.run(["bash", "scripts/setup_gpu.sh"], cwd=ROOT, env=given, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "pip install" not in done.stdout
    return done.stderr


def test_setup_stops_before_the_download(tmp_path):
    """With a driver of CUDA 12; with a Python without headers: PYTHONHOME with the standard library alone."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '| Driver Version: 550.54.15   CUDA Version: 12.4 |'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert "is of CUDA 12, and torch's CUDA 13 needs driver 580" in setup_gpu(PATH=f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "lib").symlink_to(Path(sysconfig.get_paths()["stdlib"]).parent)
    assert f"{tmp_path}/include/python3" in setup_gpu(PYTHONHOME=str(tmp_path))
    assert "no C compiler (nope)" in setup_gpu(CC="nope")


def test_64_megabytes_of_shared_memory(monkeypatch):
    """What a container has without --shm-size."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=64 * 2**20))
    (found,) = machine.shared_memory(compose(None, [*RUN, "trainer.device=cuda"])[0])
    assert str(found).startswith("/dev/shm: has 67 MB free, and the run needs 1242; docker run")
