"""SmolLM2-135M, KL of tokens or of responses in the loss (expectations.md, 3): J at the end of training.

python -m scripts.studies.scope RUNS FILE    measure the checkpoints of RUNS/<scope>-seed<seed>

J = E[score] - beta KL(pi, initial model) of responses, over the held-out problems: of each, ANSWERS sampled answers
have their score, and the KL of the next token's distributions, exact, is summed over their tokens.
"""

import json
import sys
from pathlib import Path

import pandas
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedModel

from rpg.rewards import compute_score
from rpg.toy.smollm2 import MODEL, TASK
from scripts.studies.common import RESULTS, UNTRAINED, complete_seeds, difference, markdown

PREPARED = Path("runs/smollm2")
LENGTH = 4  # tokens of an answer: data.max_response_length
ANSWERS = 32
BETA = 0.1
OUTCOMES = ("J", "score", "KL")


@torch.no_grad()
def sample(model: PreTrainedModel, initial: PreTrainedModel, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """Sample answers to a prompt, (1, prompt); return tokens, (ANSWERS, LENGTH), and KL(model, initial), (ANSWERS,)."""
    models, caches = (model, initial), (DynamicCache(), DynamicCache())
    tokens, kl = [prompt], torch.zeros(ANSWERS)
    ended, end = torch.zeros(ANSWERS, dtype=torch.bool), model.generation_config.eos_token_id
    for _ in range(LENGTH):
        both = zip(models, caches, strict=True)
        logits = [each(tokens[-1], past_key_values=cache).logits[:, -1] for each, cache in both]
        ours, theirs = (each.expand(ANSWERS, -1).log_softmax(-1) for each in logits)
        kl += (ours.exp() * (ours - theirs)).sum(-1).masked_fill(ended, 0)
        if tokens[-1] is prompt:
            for cache in caches:
                cache.batch_repeat_interleave(ANSWERS)
        tokens.append(torch.multinomial(ours.exp(), 1).masked_fill(ended[:, None], end))
        ended |= tokens[-1][:, 0] == end
    return torch.cat(tokens[1:], 1), kl


def measure(weights: Path | None) -> dict[str, float]:
    """Return mean score and KL of a checkpoint's weights, or of the initial model's."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(PREPARED / MODEL)
    model, initial = (AutoModelForCausalLM.from_pretrained(PREPARED / MODEL, dtype=torch.float32) for _ in range(2))
    if weights:
        saved = torch.load(weights, weights_only=False)  # of one process: a DTensor's part is the whole
        model.load_state_dict({name: value.to_local() for name, value in saved.items()})
    scores, kls = [], []
    for row in pandas.read_parquet(PREPARED / f"{TASK}_test.parquet").to_dict("records"):
        tokens, kl = sample(model, initial, torch.tensor([tokenizer(row["prompt"][0]["content"]).input_ids]))
        truth = row["reward_model"]["ground_truth"]
        for text in tokenizer.batch_decode(tokens, skip_special_tokens=True):
            scores.append(compute_score(TASK, text, truth, row["extra_info"])["score"])
        kls.append(kl)
    return {"score": sum(scores) / len(scores), "KL": torch.cat(kls).mean().item()}


def tables() -> list[str]:
    """Return Markdown: J, score and KL by scope, and the difference paired by seed."""
    runs = pandas.read_parquet(RESULTS / "scope.parquet")
    runs["J"] = runs.score - BETA * runs.KL
    runs[["arm", "seed"]] = runs.run.str.split("-seed", expand=True)
    pairs = complete_seeds(runs, ("token", "response"))
    rows = [[UNTRAINED, *(f"{value:.3f}" for value in runs[runs.arm == UNTRAINED].iloc[0][[*OUTCOMES]]), ""]]
    for arm in ("token", "response"):
        of_arm = pairs[pairs.arm == arm]
        means = (f"{of_arm[outcome].mean():.3f} ± {of_arm[outcome].sem():.3f}" for outcome in OUTCOMES)
        rows.append([arm, *means, str(len(of_arm))])
    effects = [difference(pairs, "arm", ["response"], ["token"], outcome) for outcome in OUTCOMES]
    rows.append(["response less token", *map(str, effects), ""])
    rows.append(["90 % power", *(f"{effect.detectable:.3f}" for effect in effects), ""])
    return [markdown(["KL of", *OUTCOMES, "seeds"], rows)]


def main() -> None:
    """Write FILE: a line a run, and one of the initial model. Runs that FILE has are not measured again."""
    runs, target = map(Path, sys.argv[1:])
    table = pandas.read_parquet(target) if target.exists() else pandas.DataFrame({"run": []})
    lines = [] if UNTRAINED in set(table.run) else [{"run": UNTRAINED, **measure(None)}]
    for run in sorted({*runs.iterdir()} - {runs / name for name in table.run}):
        last = (run / "latest_checkpointed_iteration.txt").read_text()
        commit = json.loads((run / "environment.json").read_text())["git_commit"]
        weights = run / f"global_step_{last}/actor/model_world_size_1_rank_0.pt"
        lines.append({"run": run.name, "commit": commit, "step": int(last), **measure(weights)})
        print(lines[-1], flush=True)
    table = pandas.concat([table, pandas.DataFrame(lines)], ignore_index=True)
    table.to_parquet(target, compression="zstd", index=False)


if __name__ == "__main__":
    main()
