"""Measure score, accuracy and KL(pi, pi_ref) of responses of every finished run of kl_scope.sh.

python scripts/studies/kl_scope_measure.py RUNS STUDY

Writes STUDY/responses.csv; runs that it has are kept. Four responses to each of the 512 test problems are sampled from
the run's last checkpoint at temperature 1, as in the run. pi_ref is the initial policy. The KL of a response is the sum
over its tokens of the KL between the two models' distributions of the next token, in nats: it has the expectation of
log pi - log pi_ref and less variance.
"""

import sys
from pathlib import Path

import pandas
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rpg.results.checkpoints import find_checkpoint
from rpg.rewards import compute_score

MODEL = "runs/chain/model"
PROBLEMS = "runs/chain/chain_sum_test.parquet"
SAMPLES, TOKENS, SEED = 4, 64, 0  # responses to a problem; data.max_response_length
BATCH = 64  # problems at once


def main(source: Path, study: Path) -> None:
    """Add the runs that responses.csv lacks."""
    study.mkdir(parents=True, exist_ok=True)
    path = study / "responses.csv"
    done = pandas.read_csv(path).to_dict("records") if path.is_file() else []
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    problems = pandas.read_parquet(PROBLEMS)
    policy, reference = (AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval() for _ in range(2))
    for directory in sorted(path.parent for path in source.glob("*/latest_checkpointed_iteration.txt")):
        if directory.name in {record["run"] for record in done}:
            continue
        checkpoint, _ = find_checkpoint(directory)
        policy.load_state_dict(weights(checkpoint / "actor"))
        values = measure(policy, reference, tokenizer, problems)
        done.append({"run": directory.name, **{name: round(each.mean().item(), 5) for name, each in values.items()}})
        print(done[-1], flush=True)
        pandas.DataFrame(done).sort_values("run").to_csv(path, index=False, lineterminator="\n")


def weights(actor: Path) -> dict[str, Tensor]:
    """Return the state of the only rank; it is unpickled, so the file must be one of our own runs."""
    state = torch.load(actor / "model_world_size_1_rank_0.pt", weights_only=False)
    return {name: tensor.to_local() for name, tensor in state.items()}


@torch.inference_mode()
def measure(
    policy: torch.nn.Module, reference: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, problems: pandas.DataFrame
) -> dict[str, Tensor]:
    """Return score, accuracy and KL of each sampled response, (problems * SAMPLES,)."""
    torch.manual_seed(SEED)
    texts = [
        tokenizer.apply_chat_template(prompt.tolist(), add_generation_prompt=True, tokenize=False)
        for prompt in problems["prompt"]
    ]
    prompts = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    length = prompts["input_ids"].shape[1]
    kl, answers = [], []
    for ids, mask in zip(*(prompts[name].split(BATCH) for name in ("input_ids", "attention_mask")), strict=True):
        whole = policy.generate(
            ids, attention_mask=mask, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=TOKENS,
            num_return_sequences=SAMPLES, pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        end = (whole[:, length:] == tokenizer.eos_token_id).long()
        counted = end.cumsum(1) - end == 0  # up to the first end token, included
        mask = torch.cat([mask.repeat_interleave(SAMPLES, 0), counted.long()], 1)
        inputs = {"input_ids": whole, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
        log_p, log_q = (model(**inputs).logits[:, length - 1 : -1].log_softmax(-1) for model in (policy, reference))
        kl.append(((log_p.exp() * (log_p - log_q)).sum(-1) * counted).sum(1))
        answers += tokenizer.batch_decode(whole[:, length:], skip_special_tokens=True)
    rows = problems.loc[problems.index.repeat(SAMPLES)].itertuples()
    scores = [
        compute_score(row.data_source, answer, row.reward_model["ground_truth"], row.extra_info)
        for row, answer in zip(rows, answers, strict=True)
    ]
    score, accuracy = (torch.tensor([each[key] for each in scores]) for key in ("score", "acc"))
    return {"score": score, "accuracy": accuracy, "kl": torch.cat(kl)}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
