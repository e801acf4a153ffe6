"""Checkpoints with verl's files and fake shards."""

from pathlib import Path

from rpg.files import manifest


def write_verl(run: Path, step: int, ranks: int = 2) -> Path:
    """Write verl's files of a step with its tracker; a thousand bytes or more per shard."""
    directory = run / f"global_step_{step}"
    actor = directory / "actor"
    (actor / "huggingface").mkdir(parents=True, exist_ok=True)
    (actor / "huggingface" / "config.json").write_text("{}")
    (actor / "fsdp_config.json").write_text(f'{{"FSDP_version": 2, "world_size": {ranks}}}')
    for rank in range(ranks):
        for kind in ("model", "optim", "extra_state"):
            (actor / f"{kind}_world_size_{ranks}_rank_{rank}.pt").write_bytes(f"{kind} {rank} {step} ".encode() * 100)
    (directory / "data.pt").write_bytes(b"data")
    (run / "latest_checkpointed_iteration.txt").write_text(str(step))
    return directory


def write_complete(run: Path, step: int, ranks: int = 2) -> Path:
    """Write the same with a manifest, as our trainer does."""
    directory = run / f"global_step_{step}"
    manifest.begin(directory)
    write_verl(run, step, ranks)
    manifest.write(directory)
    return directory
