"""Rewrite a verl checkpoint for another number of ranks: verl loads only the files of its own number.

verl saves one file per rank with FSDP2's shards of weights, moments and schedule-free averages, and does not reshard.
The shards are joined and split as FSDP2 splits a parameter (torch.chunk), so that the numbers stay equal to the bit.
The data position (data.pt) and the learning rate's schedule do not depend on ranks.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from rpg.diagnostics import UserError
from rpg.files import manifest
from rpg.files.integrity import REFERENCE

# names that are not copied: the files of ranks and the manifest
LEFT_OUT = shutil.ignore_patterns("*_world_size_*_rank_*.pt", manifest.NAME, REFERENCE)


def reshard(checkpoint: Path, out: Path, ranks: int) -> None:
    """Write the checkpoint global_step_N for this number of ranks into out/global_step_N, which must not exist.

    Each rank takes the random state of rank modulo the earlier number of ranks.

    Raises UserError: the shards cannot be split: HSDP or FSDP1.
    """
    actor, target = checkpoint / "actor", out / checkpoint.name
    config = json.loads((actor / "fsdp_config.json").read_bytes())
    before = config["world_size"]
    reference, model = _load(checkpoint / REFERENCE, "", before), _load(actor, "model_", before)
    if config["FSDP_version"] != 2 or {tensor.device_mesh.shape for tensor in model[0].values()} != {(before,)}:
        raise UserError(f"{actor}: only shards of fsdp2 with fsdp_size=-1 can be split")

    manifest.begin(target)
    shutil.copytree(checkpoint, target, dirs_exist_ok=True, ignore=LEFT_OUT)
    (target / "actor/fsdp_config.json").write_text(json.dumps(config | {"world_size": ranks}, indent=4))
    if reference:
        (target / REFERENCE).mkdir()
    optimizer = _load(actor, "optim_", before)
    for rank in range(ranks):
        torch.save(_part(model, rank, ranks), target / "actor" / _file("model_", ranks, rank))
        if optimizer:
            torch.save(_part(optimizer, rank, ranks), target / "actor" / _file("optim_", ranks, rank))
        if (state := actor / _file("extra_state_", before, rank % before)).exists():
            shutil.copyfile(state, target / "actor" / _file("extra_state_", ranks, rank))
        if reference:
            state = {"state": reference[0]["state"]}
            if "shards" in reference[0]:  # of a moving one: plain tensors, split as the actor's
                state["shards"] = {
                    name: _split([part["shards"][name] for part in reference], tensor.placements[0].dim, rank, ranks)
                    for name, tensor in model[0].items()
                }
            torch.save(state, target / REFERENCE / _file("", ranks, rank))
    manifest.write(target)


def _file(kind: str, ranks: int, rank: int) -> str:
    return f"{kind}world_size_{ranks}_rank_{rank}.pt"


def _load(folder: Path, kind: str, ranks: int) -> list[Any]:
    """Return the content of all ranks' files of a kind, mapped from disk; [] if there are none."""
    files = [folder / _file(kind, ranks, rank) for rank in range(ranks)]
    if not files[0].exists():
        return []
    return [torch.load(file, map_location="cpu", mmap=True, weights_only=True) for file in files]


def _part(parts: list[Any], rank: int, ranks: int) -> Any:
    """Return a rank's part of what all ranks saved; what is not sharded is the first rank's."""
    first = parts[0]
    if isinstance(first, dict):
        return type(first)({key: _part([part[key] for part in parts], rank, ranks) for key in first})
    if not isinstance(first, DTensor):
        return first
    # a mesh without process groups; loading compares its ranks and names with the run's
    mesh = DeviceMesh(
        first.device_mesh.device_type, list(range(ranks)), mesh_dim_names=first.device_mesh.mesh_dim_names,
        _init_backend=False, _rank=rank,
    )  # fmt: skip
    shard: Any = first.placements[0]
    shards = _split([part.to_local() for part in parts], shard.dim, rank, ranks)
    return DTensor.from_local(shards, mesh, first.placements, run_check=False, shape=first.shape, stride=first.stride())


def _split(parts: list[torch.Tensor], dim: int, rank: int, ranks: int) -> torch.Tensor:
    """Join the shards and return the shard of rank `rank` of `ranks`; the last shards may be smaller, or empty."""
    whole = torch.cat(parts, dim)
    chunks = whole.chunk(ranks, dim)
    return chunks[rank].clone() if rank < len(chunks) else whole.narrow(dim, 0, 0).clone()
