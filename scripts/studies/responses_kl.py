"""Measure KL(pi, pi_ref) of responses, in nats, of every finished run of kl_scope.sh; pi_ref is the initial policy.

python scripts/studies/responses_kl.py RUNS STUDY

Writes STUDY/kl.csv. Responses to the test problems are sampled from the run's last checkpoint at temperature 1, as in
the run. The KL of a response is the sum over its tokens of the KL between the two models' distributions of the next
token, which has the expectation of log pi - log pi_ref and less variance. Known runs are kept.
"""

import sys
import tempfile
from pathlib import Path

import pandas
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rpg.results.checkpoints import export, find_checkpoint

MODEL = Path("runs/chain/model")
PROBLEMS = Path("runs/chain/chain_sum_test.parquet")
SAMPLES, TOKENS, SEED = 4, 64, 0  # responses to a problem; data.max_response_length


def main(source: Path, study: Path) -> None:
    """Append the runs that kl.csv lacks."""
    path = study / "kl.csv"
    known = pandas.read_csv(path).to_dict("records") if path.is_file() else []
    names = {record["run"] for record in known}
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    texts = [
        tokenizer.apply_chat_template(prompt.tolist(), add_generation_prompt=True, tokenize=False)
        for prompt in pandas.read_parquet(PROBLEMS)["prompt"]
    ]
    reference = load(MODEL)
    study.mkdir(parents=True, exist_ok=True)
    for directory in sorted(path.parent for path in source.glob("*/latest_checkpointed_iteration.txt")):
        if directory.name in names:
            continue
        checkpoint, _ = find_checkpoint(directory)
        with tempfile.TemporaryDirectory() as folder:
            export(checkpoint / "actor", Path(folder) / "model")
            values = response_kl(load(Path(folder) / "model"), reference, tokenizer, texts)
        error = values.std().item() / len(values) ** 0.5
        known.append({"run": directory.name, "kl": round(values.mean().item(), 5), "error": round(error, 5)})
        print(f"{directory.name}: {values.mean():.4f} ± {error:.4f} nats", flush=True)
        pandas.DataFrame(known).sort_values("run").to_csv(path, index=False, lineterminator="\n")


def load(path: Path) -> torch.nn.Module:
    """Return a model in float32."""
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


@torch.inference_mode()
def response_kl(
    policy: torch.nn.Module, reference: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, texts: list[str]
) -> Tensor:
    """Return the mean KL along the sampled responses to each text, (len(texts),)."""
    torch.manual_seed(SEED)
    prompts = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    length = prompts["input_ids"].shape[1]
    whole = policy.generate(
        **prompts, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=TOKENS,
        num_return_sequences=SAMPLES, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    responses = whole[:, length:]
    ended = (responses == tokenizer.eos_token_id).long().cumsum(1)
    counts = ended - (responses == tokenizer.eos_token_id).long() == 0  # up to the first end token, included
    attention = torch.cat([prompts["attention_mask"].repeat_interleave(SAMPLES, 0), counts.long()], 1)
    places = (attention.cumsum(1) - 1).clamp(min=0)
    total = []
    for rows in torch.arange(len(whole)).split(256):
        inputs = {"input_ids": whole[rows], "attention_mask": attention[rows], "position_ids": places[rows]}
        log_p, log_q = (model(**inputs).logits[:, length - 1 : -1].log_softmax(-1) for model in (policy, reference))
        token_kl = (log_p.exp() * (log_p - log_q)).sum(-1)
        total.append((token_kl * counts[rows]).sum(1))
    return torch.cat(total).view(-1, SAMPLES).mean(1)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
