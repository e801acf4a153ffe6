"""Compare the time of updates by the plugin's worker and losses with verl's own, on the same batch.

    python scripts/bench_update.py                                  # five minutes on an idle core
    python scripts/bench_update.py --prompts 4 --rounds 3

All workers live in this process, configured by the CPU profile: verl's ActorRolloutRefWorker with its vanilla loss and
no KL (DAPO), ours with the same loss, ours with RPG's losses, and, given a reference's log-probs, GRPO with its KL and
RPG with a fixed reference. Every update uses one batch of full-length rows. Build the toy model with
`rpg demo --prepare-only`.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import torch

ROOT = Path(__file__).resolve().parents[1]
BASE = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=bench"]
CANDIDATES = {  # whether the worker is ours, the method's Hydra groups, whether its loss reads a reference
    "verl's worker, vanilla": (False, ["method=dapo"], False),
    "verl's worker, vanilla + k3 (GRPO)": (False, ["method=grpo"], True),
    "the plugin's worker, vanilla": (True, ["method=dapo"], False),
    "RPG-URKL": (True, ["method=rpg"], False),
    "RPG-REINFORCE-URKL": (True, ["method=rpg_rf_clip_ppo", "clip=0.2_0.28"], False),
    "RPG-REINFORCE-URKL, fixed reference": (
        True, ["method=rpg_rf_clip_ppo", "clip=0.2_0.28", "reference=fixed"], True),
}  # fmt: skip


def main() -> None:
    """Build the workers, time an update of each in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=32, help="of eight responses; two mini-batches")
    parser.add_argument("--rounds", type=int, default=25, help="the first is not counted")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT))  # the root, which holds tests/
    os.environ.update(VERL_PLATFORM="cpu", RANK="0", WORLD_SIZE="1", RPG_HOME=str(ROOT))
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT="0"
    )  # verl's worker reads these variables; the process group exists already
    with tempfile.TemporaryDirectory(prefix="rpg-bench-") as directory:
        store = torch.distributed.FileStore(f"{directory}/meeting", 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        updates = {name: make_update(directory, args.prompts, *how) for name, how in CANDIDATES.items()}
        rounds = []
        for number in range(args.rounds):
            order = random.Random(number).sample(list(updates), len(updates))
            rounds.append({name: updates[name]() for name in order})
        torch.distributed.destroy_process_group()
    seconds = pandas.DataFrame(rounds[1:])[list(CANDIDATES)]
    ratios = seconds.div(seconds.iloc[:, 0], axis=0).quantile([0.25, 0.5, 0.75])
    print("| update | ratio |\n|---|--:|")
    for name, (low, middle, high) in ratios.items():
        print(f"| {name} | {middle:.3f} ({low:.3f} to {high:.3f}) |")


def make_update(
    directory: str, prompts: int, ours: bool, method: list[str], reads_reference: bool
) -> Callable[[], float]:
    """Return a function that updates a worker with the toy model on full-length rows and returns the seconds.

    method: the launch script's Hydra groups; reads_reference: the loss gets a reference's log-probs.
    """
    from omegaconf import OmegaConf
    from verl.workers.engine_workers import ActorRolloutRefWorker

    from rpg.config.compose import compose_config
    from rpg.verl_plugin.worker import RPGActorRolloutRefWorker
    from tests.verl_plugin.real_worker import batch, of_update, response_log_probs

    sizes = [f"data.train_batch_size={prompts}", f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts // 2}"]
    config: Any = OmegaConf.to_container(compose_config([*BASE, *method, *sizes]), resolve=True)
    section: Any = OmegaConf.create(config["actor_rollout_ref"])
    if ours:
        section.rpg = {"reference": config["rpg"]["reference"], "directory": directory, "nonfinite_limit": 3}
    worker: Any = (RPGActorRolloutRefWorker if ours else ActorRolloutRefWorker)(section, "actor_rollout_ref")
    # verl has no role for training without rollouts; it derives the parts from this name
    worker.role = "actor_ref" if reads_reference else "actor"
    worker.init_model()

    data, responses = config["data"], section.rollout.n
    shape = (prompts * responses, data["max_prompt_length"] + data["max_response_length"])
    rows = torch.randint(5, 300, shape, generator=torch.Generator().manual_seed(0))
    lengths = [data["max_prompt_length"]] * len(rows)
    scored = batch(rows, lengths, calculate_entropy=False, compute_loss=False)
    log_probs = response_log_probs(worker.compute_log_prob, scored)
    fields = dict.fromkeys(["old_log_probs", *(["ref_log_prob"] if reads_reference else [])], log_probs)

    def update() -> float:
        made = batch(rows, lengths, fields, **of_update(prompts // 2 * responses))
        began = time.perf_counter()
        worker.update_actor(made)
        return time.perf_counter() - began

    return update


if __name__ == "__main__":
    main()
