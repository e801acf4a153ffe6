"""The checks of a machine with GPUs, each provoked without one: another nvidia-smi, no headers, 64 MB, low limits."""

import ctypes
import functools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from rpg import gpu_host
from rpg.checks import budgets
from rpg.config.compose import compose
from rpg.config.resolvers import detected_memory
from rpg.config.run_config import RunConfig

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
        ("", [], 24),
        ("-1", [], 24),
        ("GPU-", [], 24),
        ("MIG-1234", [], 24),
    ],
)
def test_visible_gpus(two_gpus, monkeypatch, value, indices, gigabytes):
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.index for gpu in gpu_host.visible()] == indices
    assert detected_memory() == gigabytes


def test_the_smallest_gpu_must_hold_the_run(two_gpus, said):
    assert "25.8 GB do not hold the run: update" in said(budgets.memory)


def test_a_gpu_in_parts_has_no_memory_that_is_known(two_gpus, tmp_path):
    answers(tmp_path / "bin", "580.65.06", "Enabled")
    assert [gpu.index for gpu in gpu_host.visible()] == [1]
    assert [gpu.index for gpu in gpu_host.present()] == [0, 1]


@pytest.mark.parametrize("answer", ["echo No devices were found", "exit 9", "echo a,b,c,d,e,f"])
def test_an_nvidia_smi_that_finds_nothing(tmp_path, monkeypatch, answer):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert gpu_host.present() == []
    assert gpu_host.old_driver() is None or gpu_host.cuda_of_the_driver() is not None


def finds_libcuda() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture
def said(monkeypatch):
    """Return a function that returns the findings of a check, with these environment variables."""
    for name in ("RAY_ADDRESS", "CC"):
        monkeypatch.delenv(name, raising=False)

    def call(check, device: str = "cuda", **environment: str) -> str:
        with monkeypatch.context() as changed:
            for name, value in environment.items():
                changed.setenv(name, value)
            return "\n".join(map(str, check(run_on(device))))

    return call


@functools.cache
def run_on(device: str) -> RunConfig:
    return compose(None, [*RUN, f"trainer.device={device}"])[0]


OLD = "is too old for torch's CUDA 13, which needs driver 580 or later; install a newer NVIDIA driver"


@pytest.mark.skipif(finds_libcuda(), reason="libcuda knows the driver better")
def test_setup_stops_before_the_download(tmp_path):
    """With a driver of CUDA 12, in an environment that nothing is installed into."""
    environment = {**os.environ, "PATH": f"{answers(tmp_path, '550.54.15')}:{os.environ['PATH']}",
                   "PYTHON": sys.executable, "FLASH_ATTN": "0"}  # fmt: skip
    done = subprocess.run(["bash", "scripts/setup_gpu.sh"], cwd=ROOT, env=environment, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 1
    assert f"setup_gpu: before the download of 5 GB: NVIDIA driver=550.54.15: {OLD}" in done.stderr
    assert "pip install" not in done.stdout


def test_a_python_without_headers(tmp_path):
    """PYTHONHOME with the standard library alone."""
    (tmp_path / "lib").symlink_to(Path(sysconfig.get_paths()["stdlib"]).parent)
    command = [sys.executable, "-m", "rpg.gpu_host"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHOME": str(tmp_path)}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    release = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert f"Python.h: {tmp_path}/include/{release}/Python.h is missing, and Triton compiles with it" in done.stdout
    assert done.stdout.rstrip().endswith(f"apt install {release}-dev")
    assert done.returncode == 1


def test_64_megabytes_of_shared_memory():
    """What a container has without --shm-size, in a mount namespace."""
    here = ("unshare", "--map-root-user", "--mount")
    if subprocess.run([*here, "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespace")
    command = [*here, "bash", "-c", 'mount -t tmpfs -o size=64m none /dev/shm; exec "$0" -c "$1"', sys.executable]
    names = "from rpg.checks.machine import shared_memory; from tests.checks.test_gpu_machine import run_on"
    program = f"{names}; print(*shared_memory(run_on('cuda')))"
    text = subprocess.run([*command, program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert text.startswith("/dev/shm: has 67 MB free, and NCCL, data loaders and vLLM need 1242; docker run")
