"""The content of a manifest, which exists only if all files are complete."""

import json
import signal
import subprocess
import sys
import zlib

import pytest

from rpg.files import manifest
from tests.builders.checkpoints import write_complete


def test_it_lists_every_file_with_size_and_checksum(tmp_path):
    step = write_complete(tmp_path, 4)
    files = {path.relative_to(step).as_posix(): path.read_bytes() for path in step.rglob("*") if path.is_file()}
    written = json.loads(files.pop(manifest.NAME))
    assert len(files) == 9  # three kinds on two ranks, two of metadata, data.pt
    assert written == {
        "format": 1,
        "files": {name: {"bytes": len(text), "crc32": f"{zlib.crc32(text):08x}"} for name, text in files.items()},
    }


def test_a_step_that_is_saved_again_starts_empty(tmp_path):
    """Files of two saves are not a checkpoint: from other ranks, or an export of older weights."""
    step = write_complete(tmp_path, 4, ranks=3)
    (step / "hf").mkdir()
    (step / "hf" / "model.safetensors").write_bytes(b"w")
    manifest.begin(step)
    assert not list(step.iterdir())
    assert manifest.fault(step)


@pytest.mark.parametrize("moment", ["checksum", "rename"])
def test_a_kill_while_the_manifest_is_written(tmp_path, moment):
    """SIGKILL when all shards exist: the checkpoint is incomplete."""
    code = f"""
import os, signal
from pathlib import Path
from rpg.files import manifest
from tests.builders.checkpoints import write_verl
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
directory = Path({str(tmp_path)!r}) / "global_step_4"
manifest.begin(directory)
write_verl(directory.parent, 4)
if {moment!r} == "checksum":
    manifest.checksum = kill
else:
    os.replace = kill
manifest.write(directory)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert manifest.fault(tmp_path / "global_step_4").startswith("manifest.json is missing")
    assert manifest.fault(write_complete(tmp_path, 4)) is None
