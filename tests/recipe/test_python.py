"""The Python chosen by a launch script. The interpreters are scripts that print their name."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAYS = '#!/bin/sh\necho "{0} $*"\n'
GPU, CPU = "7b/run_dapo_7b.sh", "cpu/run_dapo_cpu.sh"


class Machine:
    """A checkout, and a PATH with its own python3."""

    def __init__(self, root: Path):
        self.root, self.tree = root, root / "tree"
        shutil.copytree(ROOT / "recipe", self.tree / "recipe", ignore=shutil.ignore_patterns("__pycache__"))
        self.python("bin/python3")

    def python(self, name: str, text: str = SAYS) -> str:
        """Make an interpreter below the root; return the directory of its environment."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(name))
        path.chmod(0o755)
        return str(path.parents[1])

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.root / 'bin'}{os.pathsep}{os.defpath}"
        return subprocess.run(
            ["bash", *command], env={"PATH": path, **environment}, cwd=self.root, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    def taken(self, script: str, *overrides: str, **environment: str) -> str:
        """Return the interpreter that a launch script starts."""
        return self.run(str(self.tree / "recipe/rpg" / script), *overrides, **environment).stdout.partition(" ")[0]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_gpu_run_takes_what_is_active(machine):
    machine.python("tree/.venv/bin/python")
    assert machine.taken(GPU) == "bin/python3"  # .venv holds CPU builds
    machine.python("tree/.venv-gpu/bin/python")
    assert machine.taken(GPU) == "tree/.venv-gpu/bin/python"
    conda = machine.python("conda/bin/python3")
    assert machine.taken(GPU, CONDA_PREFIX=conda) == "conda/bin/python3"
    venv = machine.python("venv/bin/python3")
    assert machine.taken(GPU, CONDA_PREFIX=conda, VIRTUAL_ENV=venv) == "venv/bin/python3"
    (machine.tree / ".venv/.rpg-setup").write_text("")  # setup.sh's, also if it is active
    assert machine.taken(GPU, VIRTUAL_ENV=str(machine.tree / ".venv")) == "tree/.venv-gpu/bin/python"
    named = machine.python("an = odd name/bin/python3")
    assert machine.taken(GPU, VIRTUAL_ENV=venv, PYTHON=f"{named}/bin/python3") == "an"


def test_the_cpu_profile_takes_its_own(machine):
    """Regardless of the active environment, such as conda's base or a GPU environment."""
    venv = machine.python("venv/bin/python3")
    assert machine.taken(CPU, VIRTUAL_ENV=venv) == "venv/bin/python3"
    assert "profile=cpu" in machine.run(str(machine.tree / "recipe/rpg" / CPU), VIRTUAL_ENV=venv).stderr
    machine.python("tree/.venv/bin/python")
    assert machine.taken(GPU, "profile=cpu", "model=toy") == "tree/.venv/bin/python"
    assert machine.taken(GPU, "trainer.project_name=profile=cpu") == "bin/python3"
    machine.python("tree/.venv-gpu/bin/python")
    assert machine.taken(CPU, VIRTUAL_ENV=venv, CONDA_PREFIX=venv) == "tree/.venv/bin/python"
    assert machine.taken(CPU, "profile=gpu_sdpa") == "tree/.venv-gpu/bin/python"
