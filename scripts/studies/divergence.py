"""KL(pi, initial policy) of runs' responses: python -m scripts.studies.divergence MODEL RUN...

For each RUN the newest checkpoint, which is exported, and the responses of the last validation, which it sampled. Each
token counts the whole KL of its distribution, summed over the response; RUN/divergence.json gets the mean over
responses, in nats, and its standard error.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rpg.results.checkpoints import export, find_checkpoint

ROWS = 128  # responses at once


def prompt_tokens(tokenizer: Any, dumped: str) -> list[int]:
    """Return a prompt's tokens from verl's dump of it, which lacks the special ones."""
    message = {"role": "user", "content": dumped.removeprefix("user\n").removesuffix("\nassistant\n")}
    tokens = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=False)
    if tokenizer.decode(tokens, skip_special_tokens=True) != dumped:
        raise ValueError(f"not a prompt of one message of the user: {dumped!r}")
    return tokens


@torch.no_grad()
def kl_of_responses(policy: Path, initial: Path, samples: list[dict]) -> torch.Tensor:
    """Return sum_t KL(pi(. | prompt, y_<t), pi_0) of each sample's output y, end of the sequence included."""
    tokenizer = AutoTokenizer.from_pretrained(policy)
    pi, start = (AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval() for model in (policy, initial))
    sums = []
    for first in range(0, len(samples), ROWS):
        batch = samples[first : first + ROWS]
        prompts = [prompt_tokens(tokenizer, sample["input"]) for sample in batch]
        outputs = tokenizer([sample["output"] for sample in batch], add_special_tokens=False).input_ids
        rows = [prompt + output for prompt, output in zip(prompts, outputs, strict=True)]
        padded = tokenizer.pad({"input_ids": rows}, padding_side="right", return_tensors="pt")
        mine, other = (model(**padded).logits.log_softmax(-1) for model in (pi, start))
        each = (mine.exp() * (mine - other)).sum(-1)
        for row, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
            sums.append(each[row, len(prompt) - 1 : len(prompt) + len(output)].sum())
    return torch.stack(sums)


def main() -> None:
    """Write RUN/divergence.json of every run that lacks it."""
    initial, *runs = map(Path, sys.argv[1:])
    for run in runs:
        result = run / "divergence.json"
        if result.exists():
            continue
        last = max((run / "validation").glob("*.jsonl"), key=lambda file: int(file.stem))
        samples = [json.loads(line) for line in last.read_text().splitlines()]
        with tempfile.TemporaryDirectory() as folder:
            policy = Path(folder) / "hf"
            checkpoint, _ = find_checkpoint(run)
            if checkpoint.name != f"global_step_{last.stem}":
                raise ValueError(f"{last}: its answers are not of the newest checkpoint, {checkpoint}")
            export(checkpoint / "actor", policy)
            kl = kl_of_responses(policy, initial, samples)
        error = kl.std().item() / len(kl) ** 0.5
        result.write_text(json.dumps({"step": int(last.stem), "kl": kl.mean().item(), "error": error}))
        print(run.name, result.read_text(), flush=True)


if __name__ == "__main__":
    main()
