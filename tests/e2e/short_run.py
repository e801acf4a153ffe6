"""Short runs of a launch script on the toy task, and readers of their checkpoints."""

import json
from pathlib import Path

import torch
import torch.distributed.tensor  # lets torch.load read the tensors of FSDP2

from tests.e2e.conftest import PATIENCE, SCRIPT, Run


def command(directory: Path, steps: int, *overrides: str, script: Path = SCRIPT) -> list[str]:
    """Return the command of `steps` training steps without validation; checkpoints only by overrides."""
    return [
        "bash",
        str(script),
        f"trainer.total_training_steps={steps}",
        f"trainer.default_local_dir={directory}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.max_actor_ckpt_to_keep=null",  # each is looked at
        "rpg.console=full",
        *overrides,
    ]


def begin(directory: Path, steps: int, *overrides: str, script: Path = SCRIPT, **environment: str) -> Run:
    """Start this command."""
    return Run(command(directory, steps, *overrides, script=script), directory, **environment)


def run(directory: Path, steps: int, *overrides: str, script: Path = SCRIPT, **environment: str) -> list[dict]:
    """Run to the end and return the metrics, one dict per step. Fails with the end of the log."""
    started = begin(directory, steps, *overrides, script=script, **environment)
    try:
        assert started.wait(2 * PATIENCE) == 0, started.text()[-4000:]
        assert started.processes() == []
    finally:
        started.end()
    return metrics(directory)


def metrics(directory: Path) -> list[dict]:
    """metrics.jsonl as dicts with the key "step"."""
    records = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [{"step": record["step"], **record["data"]} for record in records]


def starts(directory: Path) -> list[dict]:
    """Return the starts that environment.json records; none before it is written."""
    file = directory / "environment.json"
    return json.loads(file.read_text())["starts"] if file.is_file() else []


def _ranks(directory: Path, name: str) -> list:
    """Return what each rank saved under a name, in rank order."""
    paths = sorted(directory.glob(name), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [torch.load(path, weights_only=True) for path in paths]


def _whole(shards: list[dict]) -> dict[str, torch.Tensor]:
    """Concatenate FSDP2 shards."""
    return {name: torch.cat([_local(shard[name]) for shard in shards]) for name in shards[0]}


def _local(tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def actor(directory: Path, step: int) -> dict[str, torch.Tensor]:
    """Return the actor's weights in a step's checkpoint."""
    return _whole(_ranks(directory / f"global_step_{step}" / "actor", "model_world_size_*_rank_*.pt"))


FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}  # vLLM's: the model's


def rolls_out_with(rollout: dict[str, torch.Tensor], weights: dict[str, torch.Tensor]) -> bool:
    """Return whether vLLM's parameters equal the actor's weights bit for bit (float32 on both sides)."""
    looked_at = set()
    for name, tensor in rollout.items():
        *_, module, _ = name.split(".")
        parts = [name.replace(module, part) for part in FUSED.get(module, (module,))]
        expected = torch.cat([weights[part] for part in parts])
        if not torch.equal(tensor[: len(expected)], expected):  # vLLM fills up the rows of embeddings
            return False
        looked_at |= {*parts}
    return looked_at | {"lm_head.weight"} == {*weights, "lm_head.weight"}  # the embedding, where vLLM has none


def optimizer(directory: Path, step: int) -> dict:
    """Return rank 0's optimizer state in a step's checkpoint."""
    return _ranks(directory / f"global_step_{step}" / "actor", "optim_world_size_*_rank_*.pt")[0]


def reference(directory: Path, step: int) -> dict:
    """Return the reference in a step's checkpoint: its state, and its weights if saved."""
    saved = _ranks(directory / f"global_step_{step}" / "reference", "world_size_*_rank_*.pt")
    return saved[0] | ({"shards": _whole([each["shards"] for each in saved])} if "shards" in saved[0] else {})
