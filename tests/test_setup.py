"""scripts/setup.sh: a Python that does not fit, Ctrl-C during a download; wheels of flash-attn."""

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from tests.terminal import Terminal, with_environment

ROOT = Path(__file__).resolve().parents[1]


def test_a_python_that_does_not_fit_is_named(tmp_path):
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\necho 3.10\n")
    old.chmod(0o755)
    environment = os.environ | {"PYTHON": str(old)}
    ended = subprocess.run(["bash", "scripts/setup.sh"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (ended.returncode, f"PYTHON={old} is not Python 3.11 or 3.12" in ended.stderr) == (1, True)


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


def flash_attn_wheel(folder: Path) -> Path:
    """Write a wheel of flash-attn without CUDA, with a local version as prebuilt ones have; return its path."""
    name, python = "flash_attn-2.8.3+cu130torch2.11", f"cp3{sys.version_info.minor}"
    tag = f"{python}-{python}-linux_x86_64"
    metadata = "Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3+cu130torch2.11\nRequires-Dist: torch\n"
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w") as wheel:
        wheel.writestr("flash_attn/__init__.py", "__version__ = '2.8.3'\n")
        wheel.writestr(f"{name}.dist-info/METADATA", metadata)
        wheel.writestr(f"{name}.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return Path(str(wheel.filename))


def test_a_wheel_of_flash_attn_that_the_user_names(tmp_path):
    """By its path or by its folder; another one, or none, is no wheel that fits."""
    wheel, uv, python = flash_attn_wheel(tmp_path), Path(sys.executable).parent / "uv", tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    program = """. scripts/flash_attn.sh; flash_attn=flash-attn==2.8.3
    install() { [[ $1 == einops ]] || "$UV" pip install --quiet --offline --reinstall --python "$PYTHON" "$@"; }
    has_wheel"""
    for named, code in ((wheel, 0), (tmp_path, 0), (tmp_path / "no-1-py3-none-any.whl", 1), ("", 1)):
        variables = {"UV": str(uv), "PYTHON": str(python), "FLASH_ATTN_WHEEL": str(named)}
        done = subprocess.run(["bash", "-c", program], cwd=ROOT, env=os.environ | variables, capture_output=True,
                              check=False)  # fmt: skip
        assert bool(done.returncode) == bool(code), (named, done.stderr)
