"""The Python chosen by a launch script. The interpreters are scripts that print their name."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GPU, CPU = "7b/run_dapo_7b.sh", "cpu/run_dapo_cpu.sh"
CONDA, VENV = {"CONDA_PREFIX": "{root}/conda"}, {"VIRTUAL_ENV": "{root}/venv"}
NAMED = {"PYTHON": "{root}/an = odd name/bin/python3"}
SETUP, BOTH = ["tree/.venv/bin/python"], ["tree/.venv/bin/python", "tree/.venv-gpu/bin/python"]
OF_SETUP = {"VIRTUAL_ENV": "{root}/tree/.venv"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Path:
    """Return a directory with a checkout, tree, and interpreters in bin, conda, venv, and one of an odd name."""
    root = tmp_path_factory.mktemp("machine")
    shutil.copytree(ROOT / "recipe", root / "tree/recipe", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("bin", "conda/bin", "venv/bin", "an = odd name/bin"):
        interpreter(root, f"{folder}/python3")
    return root


def interpreter(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "{name} $*"\n')
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("made", "variables", "command", "taken"),
    [
        (SETUP, {}, [GPU], "bin/python3"),  # .venv holds CPU builds
        (BOTH, {}, [GPU], "tree/.venv-gpu/bin/python"),
        (BOTH, CONDA, [GPU], "conda/bin/python3"),
        (BOTH, CONDA | VENV, [GPU], "venv/bin/python3"),
        (BOTH, OF_SETUP, [GPU], "tree/.venv-gpu/bin/python"),
        (BOTH, VENV | NAMED, [GPU], "an = odd name/bin/python3"),
        # the CPU profile takes its own, whatever is active, such as conda's base or a GPU environment
        ([], VENV, [CPU], "venv/bin/python3"),
        (SETUP, VENV, [GPU, "profile=cpu", "model=toy"], "tree/.venv/bin/python"),
        (SETUP, {}, [GPU, "trainer.project_name=profile=cpu"], "bin/python3"),
        (BOTH, VENV | CONDA, [CPU], "tree/.venv/bin/python"),
        (BOTH, {}, [CPU, "profile=gpu_sdpa"], "tree/.venv-gpu/bin/python"),
    ],
)
def test_the_python_of_a_launch_script(machine, made, variables, command, taken):
    for environment in (".venv", ".venv-gpu"):
        shutil.rmtree(machine / "tree" / environment, ignore_errors=True)
    for name in made:
        interpreter(machine, name)
        (machine / name).parents[1].joinpath(".rpg-setup").touch()  # by scripts/setup.sh
    variables = {name: value.format(root=machine) for name, value in variables.items()}
    script = machine / "tree/recipe/rpg" / command[0]
    done = subprocess.run(
        ["bash", script, *command[1:]], capture_output=True, text=True, check=False,
        env={"PATH": f"{machine / 'bin'}{os.pathsep}{os.defpath}", **variables},
    )  # fmt: skip
    assert done.stdout.startswith(f"{taken} ")
