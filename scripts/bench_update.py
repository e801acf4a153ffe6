"""What the plugin costs a training step: updates by its worker and loss against verl's own, on the same batch, in turn.

    python scripts/bench_update.py                                  # five minutes on an idle core
    python scripts/bench_update.py --prompts 4 --rounds 3

Every worker lives in this process, as the CPU profile configures it: verl's ActorRolloutRefWorker with its vanilla loss
and no KL (DAPO), ours with the same loss, ours with RPG's losses; GRPO with its KL and RPG against a fixed reference,
both given the reference's log-probs. Every update is of one batch of whole-length rows. Toy model:
`rpg demo --prepare-only`.
"""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from bench_step import spread

ROOT = Path(__file__).resolve().parents[1]
BASE = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=bench"]
CANDIDATES = {  # whose worker, the method's groups, whether its loss reads a reference
    "verl's worker, vanilla": ("verl", ["method=dapo"], False),
    "our worker, vanilla": ("rpg", ["method=dapo"], False),
    "RPG-URKL": ("rpg", ["method=rpg"], False),
    "RPG-REINFORCE-URKL": ("rpg", ["method=rpg_rf_clip_ppo", "clip=0.2_0.28"], False),
    "verl's worker, vanilla + k3 (GRPO)": ("verl", ["method=grpo"], True),
    "RPG-REINFORCE-URKL, fixed": ("rpg", ["method=rpg_rf_clip_ppo", "clip=0.2_0.28", "reference=fixed"], True),
}


def main() -> None:
    """Build the workers, update each in turn, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=32, help="of eight responses; two mini-batches")
    parser.add_argument("--rounds", type=int, default=25, help="the first is not counted")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.update(VERL_PLATFORM="cpu", RANK="0", WORLD_SIZE="1", RPG_HOME=str(ROOT))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # verl's worker reads them; the group is there
    with tempfile.TemporaryDirectory(prefix="rpg-bench-") as directory:
        store = torch.distributed.FileStore(f"{directory}/meeting", 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        candidates = {name: Candidate(directory, args.prompts, *how) for name, how in CANDIDATES.items()}
        seconds: dict[str, list[float]] = {name: [] for name in candidates}
        order = list(candidates)
        for number in range(args.rounds):
            random.Random(number).shuffle(order)
            for name in order:
                seconds[name].append(candidates[name].update())
        torch.distributed.destroy_process_group()
    print("\n".join(table({name: times[1:] for name, times in seconds.items()})))


class Candidate:
    """One worker with the toy model, and the batch that it is given again and again.

    whose: `verl` or `rpg`; method: the launch script's groups; reads_reference: its loss has a reference's log-probs.
    """

    def __init__(self, directory: str, prompts: int, whose: str, method: list[str], reads_reference: bool):
        from omegaconf import OmegaConf
        from verl.workers.engine_workers import ActorRolloutRefWorker
        from verl.workers.utils.padding import response_from_nested

        from rpg.launching.compose import compose_config
        from rpg.verl_plugin.worker import RPGActorRolloutRefWorker

        config: Any = OmegaConf.to_container(
            compose_config([*BASE, *method, f"data.train_batch_size={prompts}",
                            f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts // 2}"]), resolve=True)  # fmt: skip
        section: Any = OmegaConf.create(config["actor_rollout_ref"])
        if whose == "rpg":
            section.rpg = {"reference": config["rpg"]["reference"], "directory": directory, "nonfinite_limit": 3}
        worker_class = RPGActorRolloutRefWorker if whose == "rpg" else ActorRolloutRefWorker
        self.worker: Any = worker_class(config=section, role="actor_rollout_ref")
        # verl knows no role of a training process without rollouts; it reads the parts off this name
        self.worker.role = "actor_ref" if reads_reference else "actor"
        self.worker.init_model()
        self.rows, self.mini_batch = prompts * section.rollout.n, section.actor.ppo_mini_batch_size * section.rollout.n
        self.prompt, self.response = config["data"]["max_prompt_length"], config["data"]["max_response_length"]
        batch = self.batch({}, calculate_entropy=False, compute_loss=False)
        mask = batch["response_mask"]
        log_probs = response_from_nested(self.worker.compute_log_prob(batch)["log_probs"], mask).unbind()
        names = ["old_log_probs", "ref_log_prob"] if reads_reference else ["old_log_probs"]
        self.fields = {name: list(log_probs) for name in names}

    def batch(self, fields: dict[str, list[torch.Tensor]], **extra: Any) -> Any:
        """Rows of full length, the same tokens for every candidate."""
        from tensordict import TensorDict
        from verl.utils import tensordict_utils as tu

        length = self.prompt + self.response
        tokens = torch.randint(5, 300, (self.rows, length), generator=torch.Generator().manual_seed(0))
        ones = torch.ones(self.rows, self.response, dtype=torch.long)
        dense = {
            "input_ids": tokens,
            "position_ids": torch.arange(length).expand(self.rows, -1).clone(),
            "prompts": tokens[:, : self.prompt],
            "responses": tokens[:, self.prompt :],
            "response_mask": ones,
            "loss_mask": ones,
            "advantages": 1.0 - 2.0 * (tokens[:, self.prompt :] % 2),
        }
        nested = {
            name: torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)
            for name, rows in {**dense, **fields}.items()
        }
        made = TensorDict(nested, batch_size=self.rows)
        tu.assign_non_tensor(made, temperature=1.0, global_token_num=[length] * self.rows, **extra)
        return made

    def update(self) -> float:
        """One step's optimizer steps, in seconds."""
        batch = self.batch(
            self.fields, calculate_entropy=False, global_batch_size=self.mini_batch, mini_batch_size=self.mini_batch,
            epochs=1, seed=1, dataloader_kwargs={"shuffle": False},
        )  # fmt: skip
        began = time.perf_counter()
        self.worker.update_actor(batch)
        return time.perf_counter() - began


def table(seconds: dict[str, list[float]]) -> list[str]:
    """Markdown: medians and quartiles, and those of the ratios to the first candidate within each round."""
    first = next(iter(seconds.values()))
    rows = ["| update | s | relative to the first |", "|---|--:|--:|"]
    for name, times in seconds.items():
        ratios = [time / base for time, base in zip(times, first, strict=True)]
        rows.append(f"| {name} | {spread(times)} | {spread(ratios, digits=3)} |")
    return rows


if __name__ == "__main__":
    main()
