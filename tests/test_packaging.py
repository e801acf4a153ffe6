"""The wheel, built from the sdist: it installs into its own environment, with configuration, scripts and tables."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source = tmp_path_factory.mktemp("source")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.check_output(listing, cwd=ROOT, text=True).split("\0")
    for name in filter(None, files):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "uv", "build", "--no-build-isolation", "--out-dir", str(out)]
    subprocess.run([*command, "--python", sys.executable, str(source)], check=True, capture_output=True, timeout=600)
    (sdist,) = out.glob("rpg_verl-*.tar.gz")  # uv builds the wheel from it
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "rpg/recipe/launch.sh"} <= names
    assert not any(name.startswith("tests") for name in names)
    (built,) = out.glob("rpg_verl-*.whl")
    return built


def test_contents(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for needed in (
        "rpg/objectives/losses.py",
        "rpg/verl_plugin/cpu/preload/client.py",
        "rpg/results/paper_tables.csv",
        "rpg/rewards/verified/units.txt",
        "rpg/recipe/launch.sh",
        "rpg/recipe/config/rpg_trainer.yaml",
        "rpg/recipe/config/profile/cpu.yaml",
        "rpg/recipe/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh",
    ):
        assert needed in names
    assert {name.partition("/")[0] for name in names} == {"rpg", "rpg_verl-0.1.0.dist-info"}


@pytest.mark.slow
def test_installs_into_a_clean_environment(wheel, tmp_path):
    """The environment has verl and this one's other packages, but rpg only from the wheel."""
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(clean)], check=True, timeout=900)
    python = clean / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--offline"]
    subprocess.run([*install, "--python", str(python), str(wheel)], check=True, timeout=900)
    (site,) = (clean / "lib").glob("python*/site-packages")
    # the packages of this environment behind the clean one's own; the editable rpg of this one is a .pth file, which
    # is not read from there
    (site / "behind.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")) + "\n")
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*command: str, **environment: str) -> str:
        ended = subprocess.run(
            [str(clean / "bin" / command[0]), *command[1:]],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": "", **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        return ended.stdout

    code = (
        "import rpg, verl; from pathlib import Path\n"
        "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as losses\n"
        f"assert Path(rpg.__file__).is_relative_to({str(clean)!r}), rpg.__file__\n"
        "assert 'rpg_rf_urkl_clip_ppo' in losses\n"
    )
    run("python", "-c", code)
    printed = yaml.safe_load(run("rpg", "train", "grpo_cpu", DRY_RUN="1"))
    assert printed["trainer"]["experiment_name"] == "grpo_cpu"
    assert printed["actor_rollout_ref"]["model"]["path"] == str(empty / "runs/toy/model")
    assert run("rpg", "--version").split()[-1] == "0.1.0"
    assert "grpo_7b_async" in run("rpg", "list")
    (empty / "mine.csv").write_text("Q,A\n" + "".join(f"What is {n} + {n}?,{2 * n}\n" for n in range(20)))
    run("rpg", "data", "build", "--from", "mine.csv", "--question", "Q", "--answer", "A", "--data-source", "MATH",
        "--test-rows", "4")  # fmt: skip
    run("rpg", "data", "check", "data/mine_train.parquet", "data/mine_test.parquet")
    assert json.loads(run("rpg", "plan", "rpg_7b_urkl1e-4", "--json"))
    assert json.loads(run("rpg", "verify", "--json", "--policies", "20"))


@pytest.mark.full
def test_both_environments_resolve_on_both_pythons():
    ended = subprocess.run(
        ["bash", "scripts/check_requirement.sh"], cwd=ROOT, capture_output=True, text=True, timeout=1200
    )
    assert ended.returncode == 0, ended.stderr
    for version in ("3.11", "3.12"):
        line, lock = [line for line in ended.stdout.splitlines() if line.startswith(f"Python {version}:")]
        assert "requirements/cpu.txt is complete" in lock
        for pinned in ("verl==0.9.1", "torch==2.11.0", "vllm==0.24.0", "transformers==5.9.0", "flash-attn==2.8.3"):
            assert pinned in line
