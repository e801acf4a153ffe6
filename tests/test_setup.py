"""scripts/setup.sh: Ctrl-C during a download; options of it and docs.sh."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.terminal import Terminal, with_environment

ROOT = Path(__file__).resolve().parents[1]


def test_ctrl_c_ends_a_download_and_its_helper(tmp_path):
    """Also one by pip, which then ends with 1, as after an error."""
    download = """. scripts/venv.sh; during "the download" sh -c "trap 'exit 1' INT; sleep 300"; echo went on"""
    environment = {**os.environ, "RPG_TEST_SETUP": str(tmp_path)}
    terminal = Terminal(["bash", "-c", download], tmp_path / "terminal.txt", ROOT, environment)
    terminal.wait_for("the download")
    time.sleep(0.5)
    terminal.press_ctrl_c()
    assert terminal.wait() == 130
    assert "interrupted" in terminal.text()
    assert "went on" not in terminal.text()
    until = time.monotonic() + 30
    while with_environment("RPG_TEST_SETUP", str(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert with_environment("RPG_TEST_SETUP", str(tmp_path)) == []


@pytest.mark.parametrize("script", ["setup.sh", "docs.sh"])
def test_an_unknown_option_is_an_error_with_the_usage(script):
    def run(option: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", ROOT / "scripts" / script, option], capture_output=True, text=True)

    asked, mistaken = run("--help"), run("--clean")
    assert (asked.returncode, mistaken.returncode) == (0, 2)
    assert mistaken.stderr == f"{script}: unknown option --clean\n{asked.stdout}"
