"""Made-up runs for the tests, with verl's metric names."""

import json
from pathlib import Path

import yaml

from rpg.names import LOSSES

CONFIG = {
    "trainer": {"experiment_name": "rpg_cpu_urkl1e-4", "total_training_steps": 4, "default_local_dir": "/somewhere/x"},
    "rpg": {"method": "rpg", "divergence": "urkl"},
    "algorithm": {"adv_estimator": "rpg"},
    "actor_rollout_ref": {
        "actor": {"policy_loss": {"loss_mode": "rpg_urkl"}, "optim": {"lr": 1e-6}, "clip_ratio_low": 0.2}
    },
    "data": {"seed": 1},
}


def config(name: str, loss: str = "rpg_urkl", seed: int = 1, steps: int = 4) -> dict:
    """Return a configuration with the keys that results read; a loss that is not the plugin's makes GRPO's run."""
    made = json.loads(json.dumps(CONFIG))
    divergence, *_ = LOSSES.get(loss, ("",))
    method = loss.replace(f"_{divergence}", "") if divergence else "grpo" if loss == "vanilla" else None
    made["rpg"] = {"method": method, "divergence": divergence or "urkl"}
    made["trainer"].update(experiment_name=name, total_training_steps=steps)
    made["actor_rollout_ref"]["actor"]["policy_loss"]["loss_mode"] = loss
    made["data"]["seed"] = seed
    if not loss.startswith("rpg"):
        made["algorithm"]["adv_estimator"] = "grpo"
    return made


def records(accuracy: list[float], benchmark: str = "aime24") -> list[tuple[int, dict]]:
    """Return (step, data): training metrics at every step but 0, one accuracy at every second."""
    lines = []
    for step in range(2 * len(accuracy) - 1):
        data: dict[str, float] = {}
        if step:
            data = {
                "critic/score/mean": -0.5 + 0.1 * step,
                "actor/entropy": 0.4 - 0.01 * step,
                "response_length/mean": 6.0 + step,
                "actor/pg_clipfrac": 0.01,
            }
        if step % 2 == 0:
            data[f"val-core/{benchmark}/acc/mean@1"] = accuracy[step // 2]
        lines.append((step, data))
    return lines


def write_run(directory: Path, lines: list[tuple[int, dict]], settings: dict | None = None) -> Path:
    """Write and return a run directory like that of a launch script."""
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"step": step, "data": data}) + "\n" for step, data in lines)
    (directory / "metrics.jsonl").write_text(text)
    if settings is not None:
        (directory / "config.yaml").write_text(yaml.safe_dump(settings))
    return directory


def write_samples(run: Path, step: int, samples: list[dict]) -> None:
    """Write a validation's samples as verl does, escaping only ASCII control characters."""
    (run / "validation").mkdir(exist_ok=True)
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in samples)
    (run / "validation" / f"{step}.jsonl").write_text(text, encoding="utf-8")
