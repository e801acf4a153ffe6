"""What a manifest holds, and that it is there when all else is, or not at all."""

import json
import signal
import subprocess
import sys
import zlib

import pytest

from rpg.files import manifest
from rpg.files.judge import verify
from tests.files.written import write_complete, write_verl


def test_it_names_every_file_with_size_and_checksum(tmp_path):
    step = write_complete(tmp_path, 4)
    entries = manifest.read(step)
    files = {path.relative_to(step).as_posix(): path.read_bytes() for path in step.rglob("*") if path.is_file()}
    del files[manifest.NAME]
    assert len(files) == 9  # three kinds on two ranks, two of metadata, data.pt
    assert entries == {name: manifest.Entry(len(held), f"{zlib.crc32(held):08x}") for name, held in files.items()}
    assert not (step / manifest.UNFINISHED).exists()


def test_a_file_of_many_blocks(tmp_path):
    """CRC-32 of the whole, whatever the blocks that it is read in."""
    content = bytes(range(256)) * (manifest.BLOCK // 100)
    (tmp_path / "x").write_bytes(content)
    assert manifest.checksum(tmp_path / "x") == f"{zlib.crc32(content):08x}"


def test_a_step_that_is_saved_again_starts_empty(tmp_path):
    """Files of two saves are no checkpoint: of other ranks, of an export of weights that are no more."""
    step = write_complete(tmp_path, 4, ranks=3)
    (step / "hf").mkdir()
    (step / "hf" / "model.safetensors").write_bytes(b"w")
    manifest.begin(step)
    assert [path.name for path in step.iterdir()] == [manifest.UNFINISHED]
    assert "did not come to its end" in verify(step).why
    write_verl(tmp_path, 4, ranks=2)
    manifest.write(step)
    assert verify(step).complete
    assert not any("rank_2" in name for name in manifest.read(step))


@pytest.mark.parametrize("moment", ["checksum", "rename"])
def test_a_kill_while_the_manifest_is_written(tmp_path, moment):
    """SIGKILL when all shards are there: the checkpoint is not complete, and does not pass for one of plain verl."""
    code = f"""
import os, signal
from pathlib import Path
from rpg.files import manifest
from tests.files.written import write_verl
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
    verdict = verify(tmp_path / "global_step_4")
    assert verdict.wrong == ("manifest.json is missing: the save did not come to its end",)
    assert (tmp_path / "global_step_4" / "data.pt").is_file()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no manifest: "),
        (b"{", "is no manifest: "),
        (b"\xff\xfe\x00", "is no manifest: "),
        (b"[" * 10**6, "is no manifest: "),
        (b"[]", "is no manifest: "),
        (b"{}", "is no manifest: 'format'"),
        (b'{"format": 2, "files": {}}', "has format 2, and this version reads 1"),
        (b'{"format": 1}', "is no manifest: 'files'"),
        (b'{"format": 1, "files": {}}', "names no files"),
        (b'{"format": 1, "files": ["data.pt"]}', "is no manifest: "),
        (b'{"format": 1, "files": {"data.pt": 4}}', "is no manifest: "),
        (b'{"format": 1, "files": {"data.pt": {"bytes": "4", "crc32": "x"}}}', "'data.pt' has no size and checksum"),
    ],
)
def test_a_manifest_that_is_none(tmp_path, content, said):
    step = write_complete(tmp_path, 4)
    (step / manifest.NAME).write_bytes(content)
    [wrong] = verify(step).wrong
    assert wrong.startswith("manifest.json ")
    assert said in wrong


def test_a_manifest_is_plain_json(tmp_path):
    """Other programs may read it."""
    held = json.loads((write_complete(tmp_path, 4) / manifest.NAME).read_text())
    assert held["files"]["data.pt"] == {"bytes": 4, "crc32": f"{zlib.crc32(b'data'):08x}"}
