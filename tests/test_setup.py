"""scripts/setup.sh: choice of Python, and messages without one."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.terminal import Terminal, assert_in_order, with_environment

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("basename", "bash", "cat", "cp", "dirname", "grep", "mkdir", "mktemp", "rm", "sh", "sha256sum", "sleep")
READ = (
    "scripts/setup.sh",
    "scripts/venv.sh",
    "pyproject.toml",
    "requirements/cpu.txt",
    "requirements/vllm-name/pyproject.toml",
)

# Answers setup.sh's questions; asked for .venv it says so and ends, elsewhere (uv's folder) it makes an environment.
PYTHON = """#!/bin/sh
case "$*" in
    *version_info*) echo {version} ;;
    *ensurepip*) exit {lacks_ensurepip} ;;
    *"--clear .venv") echo "venv by ${{0##*/}}"; exit 9 ;;
    "-m venv "*) [ {lacks_ensurepip} = 0 ] && mkdir -p "$3/bin" && cp "{pip}" "$3/bin/pip" ;;
esac
"""
PIP = """#!/bin/sh
[ "${0#*/.venv/}" != "$0" ] && echo "pip of .venv" && exit 9
echo "pip $*"
cp "${FAKE_UV:?}" "${0%/*}/uv"
"""
UV = """#!/bin/sh
echo "uv $*" >&2
case "$*" in
    "python find"*) echo "${0%/*}/brought" ;;
    venv*) exit 9 ;;
esac
"""


class Machine:
    """A copy of setup.sh's files, and a PATH with only the interpreters that a test names."""

    def __init__(self, root: Path):
        self.tree, self.bin, self.kept = root / "tree", root / "bin", root / "kept"
        for name in READ:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)
        self.write(self.kept / "pip", PIP)
        self.write(self.kept / "uv", UV)
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def python(self, path: str, version: str, ensurepip: bool = True) -> None:
        text = PYTHON.format(version=version, lacks_ensurepip=int(not ensurepip), pip=self.kept / "pip")
        self.write(self.bin / path, text)

    def setup(self, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(self.tree / "scripts" / "setup.sh")],
            capture_output=True,
            text=True,
            timeout=300,
            env={"PATH": str(self.bin), "FAKE_UV": str(self.kept / "uv"), **environment},
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("there", "named", "taken"),
    [
        ({"python3.12": "3.12", "python3.11": "3.11"}, {}, "python3.11"),
        ({"python3": "3.10", "python": "3.12"}, {}, "python"),
        ({"python3.11": "", "python3": "3.12"}, {}, "python3"),  # a shim of pyenv's without its interpreter
        ({"python3.11": "3.11", "mine": "3.12"}, {"PYTHON": "mine"}, "mine"),
    ],
)
def test_the_first_python_that_fits_is_taken(machine, there, named, taken):
    for name, version in there.items():
        machine.python(name, version)
    assert f"venv by {taken}\n" in machine.setup(**named).stdout


def test_an_environment_keeps_its_python(machine):
    machine.python("python3.11", "3.11")
    machine.python("../tree/.venv/bin/python", "3.12")
    assert "venv by python3.11" in machine.setup().stdout  # without pip it was not finished
    machine.write(machine.tree / ".venv/bin/pip", PIP)
    assert "pip of .venv" in machine.setup().stdout
    assert "venv by python3.11" in machine.setup(PYTHON="python3.11").stdout


def test_a_python_without_ensurepip(machine):
    """Ubuntu's default Python."""
    machine.python("python3", "3.12", ensurepip=False)
    ended = machine.setup()
    assert ended.returncode == 1
    assert "python3.12-venv" in ended.stderr
    shutil.copy(machine.kept / "uv", machine.bin / "uv")
    assert "uv venv --quiet --clear --seed --python python3 .venv" in machine.setup().stderr


def test_where_no_python_fits_uv_brings_one_and_any_python_fetches_uv(machine, tmp_path):
    machine.python("python3", "3.10")
    (tmp_path / "tmp").mkdir()
    ended = machine.setup(TMPDIR=str(tmp_path / "tmp"))
    (uv,) = [line for line in (ROOT / "requirements/cpu.txt").read_text().splitlines() if line.startswith("uv==")]
    assert f"--disable-pip-version-check {uv}\n" in ended.stdout
    assert "uv python install --quiet 3.11" in ended.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_long_installation_in_a_terminal(machine, tmp_path):
    """It says every ten seconds what it does; Ctrl-C ends it, although pip then exits with 1, and its helpers."""
    machine.python("python3.11", "3.11")
    machine.python("../tree/.venv/bin/python", "3.11")
    machine.write(machine.tree / ".venv/bin/pip", "#!/bin/sh\ntrap 'echo cancelled; exit 1' INT\n/bin/sleep 300\n")
    (machine.bin / "sleep").unlink()
    machine.write(machine.bin / "sleep", "#!/bin/sh\nexec /bin/sleep 0.01\n")  # of the lines' ten seconds
    environment = {"PATH": str(machine.bin), "LANG": "C.UTF-8", "RPG_TEST_SETUP": str(tmp_path)}
    terminal = Terminal(["bash", "scripts/setup.sh"], tmp_path / "terminal.txt", machine.tree, environment)
    terminal.wait_for("setup: 1 of 3, the installer uv")
    terminal.wait_for(": 20 s so far")
    terminal.press_ctrl_c()
    assert terminal.wait() == 130
    assert "setup: interrupted" in terminal.text()
    assert_in_order(terminal.text(), most=500)
    until = time.monotonic() + 30
    while with_environment("RPG_TEST_SETUP", str(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert with_environment("RPG_TEST_SETUP", str(tmp_path)) == []


def test_setup_does_nothing_the_second_time():
    """scripts/setup.sh made this environment: a second call says so and is fast."""
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("these tests do not run in the .venv that scripts/setup.sh makes")
    ended = subprocess.run(["bash", "scripts/setup.sh"], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0
    assert "up to date" in ended.stdout
