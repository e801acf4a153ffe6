"""`rpg export --ranks`: files of other numbers of ranks and back, and refusals. verl's loader: test_four_ranks.py."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.tensor import DTensor

from rpg.cli import main
from rpg.files import manifest
from tests.verl_plugin.tiny_fsdp import build, process_group


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Write verl's files of one rank: model, AdamW's moments, random state, a moving reference."""
    directory = tmp_path / "run/global_step_7"
    for folder in ("actor/huggingface", "reference"):
        (directory / folder).mkdir(parents=True)
    with process_group():
        model = build()
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.arange(11)[None]).square().sum().backward()
        optimizer.step()
        shards = {name: part.to_local().clone() for name, part in model.state_dict().items()}
        torch.save(model.state_dict(), directory / "actor/model_world_size_1_rank_0.pt")
        torch.save(optimizer.state_dict(), directory / "actor/optim_world_size_1_rank_0.pt")
    torch.save({"rng": 1}, directory / "actor/extra_state_world_size_1_rank_0.pt")
    torch.save({"state": {"age": 3}, "shards": shards}, directory / "reference/world_size_1_rank_0.pt")
    (directory / "actor/fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 1}')
    (directory / "actor/huggingface/config.json").write_text("{}")
    (directory / "data.pt").write_bytes(b"position")
    manifest.write(directory)
    return directory


def content(part: Any) -> Any:
    """Return a file's content with lists for tensors, and their placement."""
    if isinstance(part, dict):
        return {key: content(value) for key, value in part.items()}
    if isinstance(part, DTensor):
        return str(part.placements), part.device_mesh.mesh.tolist(), part.shape, part.to_local().tolist()
    return part.tolist() if isinstance(part, torch.Tensor) else part


def files(directory: Path) -> dict[str, Any]:
    found = directory.rglob("*_rank_*.pt")
    return {path.relative_to(directory).as_posix(): content(torch.load(path)) for path in found}


def test_to_other_ranks_and_back(checkpoint, tmp_path, capsys):
    """The embedding of 11 rows and the layer of 6 over four ranks: 3, 3, 3, 2 and 2, 2, 2, 0 rows."""
    before, source = files(checkpoint), checkpoint
    for ranks in (4, 3, 1):
        out = tmp_path / str(ranks)
        assert main(["export", str(source), "--ranks", str(ranks), "--out", str(out)]) == 0
        assert f"for {ranks} ranks" in capsys.readouterr().out
        source = out / checkpoint.name
        assert manifest.fault(source) is None
        assert len(files(source)) == 4 * ranks
        assert json.loads((source / "actor/fsdp_config.json").read_text()) == {"FSDP_version": 2, "world_size": ranks}
        assert (source / "data.pt").read_bytes() == b"position"
        assert (source / "actor/huggingface/config.json").exists()
    assert files(source) == before
    four = tmp_path / "4" / checkpoint.name
    last = torch.load(four / "actor/model_world_size_4_rank_3.pt")
    assert [len(part.to_local()) for part in last.values()] == [2, 0, 0, 2, 2]
    shards = torch.load(four / "reference/world_size_4_rank_3.pt")["shards"]
    assert [len(part) for part in shards.values()] == [2, 0, 0, 2, 2]
