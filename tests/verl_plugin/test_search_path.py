"""A file of the user's does not replace a library's module because the run was started beside it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.builders.toy_run import run_config

# as Ray's worker does before it imports the task's module
WORKER = """
import os, sys
sys.path.insert(0, os.getcwd())
from rpg.verl_plugin.patches import search_path
search_path.install()
import colorsys, mine
print(colorsys.__file__, mine.__file__)
"""


def test_the_working_directory_is_searched_last(tmp_path):
    for name in ("colorsys", "mine"):
        (tmp_path / f"{name}.py").touch()
    safe = run_config().settings.env["PYTHONSAFEPATH"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONSAFEPATH": str(safe)}
    done = subprocess.run(
        [sys.executable, "-c", WORKER], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    library, mine = done.stdout.split()
    assert Path(library).parent != tmp_path
    assert Path(mine).parent == tmp_path
