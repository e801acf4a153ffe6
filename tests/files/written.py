"""Checkpoints as verl writes them, with shards that are none."""

from pathlib import Path

from rpg.files import manifest

KINDS = ("model", "optim", "extra_state")


def write_verl(run: Path, step: int, ranks: int = 2, kinds: tuple[str, ...] = KINDS) -> Path:
    """What verl writes of a step, its tracker included; a thousand bytes and more a shard."""
    directory = run / f"global_step_{step}"
    actor = directory / "actor"
    (actor / "huggingface").mkdir(parents=True, exist_ok=True)
    (actor / "huggingface" / "config.json").write_text("{}")
    (actor / "fsdp_config.json").write_text(f'{{"FSDP_version": 2, "world_size": {ranks}}}')
    for rank in range(ranks):
        for kind in kinds:
            (actor / f"{kind}_world_size_{ranks}_rank_{rank}.pt").write_bytes(f"{kind} {rank} {step} ".encode() * 100)
    (directory / "data.pt").write_bytes(b"data")
    (run / "latest_checkpointed_iteration.txt").write_text(str(step))
    return directory


def write_complete(run: Path, step: int, ranks: int = 2) -> Path:
    """The same as our trainer saves it, with a manifest."""
    directory = run / f"global_step_{step}"
    manifest.begin(directory)
    write_verl(run, step, ranks)
    manifest.write(directory)
    return directory
