"""The toy task's model: a byte-level tokenizer and a Qwen2 or Qwen3 with half a million parameters.

    python -m scripts.toy_model DIRECTORY

made rpg/toy/model, in two minutes. It is trained on worked solutions with label smoothing: its most likely answers are
nearly all correct, but at temperature 1 one token in twenty is wrong, so that its sampled accuracy is about 0.3.
Reinforcement learning can improve that.
"""

import dataclasses
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from rpg.data.parquet import Problem
from rpg.data.template import format_prompt
from rpg.rewards import compute_score
from rpg.toy.sums import toy_problems

# Qwen2.5's turn markers, so that the toy prompt has the form of real ones
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# the architectures of the paper's models
FAMILIES = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
ToyModel = Qwen2ForCausalLM | Qwen3ForCausalLM


@dataclasses.dataclass(frozen=True)
class ToyModelSettings:
    """Sizes and training of the toy model; the defaults are the demo's.

    steps: maximum; the training ends when the sampled accuracy on held-out problems is in `accuracy`, (low, high).
    evaluate_from, evaluate_every: steps. From 340 on the most likely answer is correct for 99 of 100 problems, and
        label_smoothing determines the sampled accuracy; at 280 it is correct for 86, and the possible gain would
        depend on the sample of 256 that ended the training.
    label_smoothing: share of probability spread over all tokens; the sampled accuracy is about
        (1 - label_smoothing) to the power of the response's 20-odd tokens.
    max_response: maximum tokens of a sampled answer.
    """

    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    vocab_size: int = 400
    batch_size: int = 128
    learning_rate: float = 3e-3
    label_smoothing: float = 0.05
    steps: int = 440
    train_problems: int = 6000
    test_problems: int = 256
    accuracy: tuple[float, float] = (0.29, 0.5)
    evaluate_from: int = 340
    evaluate_every: int = 20
    seed: int = 0
    max_response: int = 32
    family: str = "qwen2"
    device: str = "cpu"


def worked_solution(problem: Problem) -> str:
    """Return the response for supervised training: units, tens and carry, then the answer line."""
    first, second = map(int, re.findall(r"\d+", problem.text))
    units = first % 10 + second % 10
    tens = f"{first // 10}+{second // 10}+{units // 10}={first // 10 + second // 10 + units // 10}"
    return f"{first % 10}+{second % 10}={units}\n{tens}\nAnswer: {problem.ground_truth}"


def build_tokenizer(texts: Sequence[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which each digit is one token, trained on texts.

    vLLM samples only tokens that the tokenizer knows, so the model's vocabulary is exactly len(tokenizer).
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(tokenizer: PreTrainedTokenizerFast, settings: ToyModelSettings) -> ToyModel:
    """A randomly initialised model of settings.family whose vocabulary is the tokenizer's."""
    torch.manual_seed(settings.seed)
    configuration, architecture = FAMILIES[settings.family]
    model = architecture(
        configuration(
            vocab_size=len(tokenizer),
            hidden_size=settings.hidden_size,
            intermediate_size=2 * settings.hidden_size,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads // 2,
            head_dim=settings.hidden_size // settings.heads,  # Qwen3's default is 128
            max_position_embeddings=512,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
            pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),  # type: ignore[arg-type]
        )
    )
    return model.to(settings.device)


def render_prompt(tokenizer: PreTrainedTokenizerFast, problem: str) -> str:
    """Return the prompt's text as verl's agent loop builds it (chat template, generation prompt)."""
    message = {"role": "user", "content": format_prompt(problem)}
    return str(tokenizer.apply_chat_template([message], add_generation_prompt=True, tokenize=False))


@torch.no_grad()
def sampled_accuracy(
    model: ToyModel, tokenizer: PreTrainedTokenizerFast, problems: Sequence[Problem], max_response: int
) -> float:
    """Return the share of problems answered correctly by one sample each, temperature 1, max_response tokens."""
    prompts = [render_prompt(tokenizer, problem.text) for problem in problems]
    batch = tokenizer(prompts, add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt")
    model.eval()
    out = model.generate(  # pyright: ignore[reportAttributeAccessIssue]
        input_ids=batch["input_ids"].to(model.device), attention_mask=batch["attention_mask"].to(model.device),
        max_new_tokens=max_response, do_sample=True, top_k=0, top_p=1.0,
    )  # fmt: skip
    texts = tokenizer.batch_decode(out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    pairs = zip(texts, problems, strict=True)
    return sum(compute_score(p.data_source, text, p.ground_truth)["acc"] for text, p in pairs) / len(problems)


def encode_solutions(
    tokenizer: PreTrainedTokenizerFast, problems: Sequence[Problem], solution: Callable[[Problem], str]
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return token ids and labels (problems, tokens) of prompt and solution, and the shortest prompt's length.

    Labels are -100 at prompt and padding.
    """
    ids, labels, shortest = [], [], 10**9
    for problem in problems:
        prompt = tokenizer.encode(render_prompt(tokenizer, problem.text), add_special_tokens=False)
        target = [*tokenizer.encode(solution(problem), add_special_tokens=False), tokenizer.eos_token_id]
        ids.append(torch.tensor(prompt + target))
        labels.append(torch.tensor([-100] * len(prompt) + target))
        shortest = min(shortest, len(prompt))
    pad = int(tokenizer.pad_token_id)  # type: ignore[arg-type]
    return pad_sequence(ids, True, pad), pad_sequence(labels, True, -100), shortest


def train(
    model: ToyModel,
    tokenizer: PreTrainedTokenizerFast,
    problems: Sequence[Problem],
    held_out: Sequence[Problem],
    solution: Callable[[Problem], str],
    settings: ToyModelSettings,
) -> float:
    """Train on solutions (AdamW, one learning-rate cycle) until the accuracy is in settings.accuracy.

    Returns the sampled accuracy on held_out. Raises RuntimeError if it is not in settings.accuracy.
    """
    low, high = settings.accuracy
    accuracy = 0.0
    ids, labels, shortest = encode_solutions(tokenizer, problems, solution)
    ids, labels = ids.to(model.device), labels.to(model.device)
    attention = ids.ne(int(tokenizer.pad_token_id))  # type: ignore[arg-type]
    common = min(int((ids == ids[0]).all(0).int().cumprod(0).sum()), shortest - 1)  # tokens of the common prefix
    generator = torch.Generator().manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=settings.steps, pct_start=0.1
    )
    model.train()
    for step in (bar := tqdm(range(1, settings.steps + 1), "toy model", unit=" steps", disable=None)):
        batch = torch.randint(len(ids), (settings.batch_size,), generator=generator)
        # compute the template's common prefix once instead of per row: saves four ninths of the work
        cache = model.model(input_ids=ids[:1, :common], use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(batch))
        rows = model.model(input_ids=ids[batch, common:], attention_mask=attention[batch], past_key_values=cache)
        # skip the prompt's logits: saves four fifths of the output layer's work
        logits = model.lm_head(rows.last_hidden_state[:, shortest - 1 - common : -1])
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[batch][:, shortest:].flatten(), label_smoothing=settings.label_smoothing
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step == settings.steps or (step >= settings.evaluate_from and step % settings.evaluate_every == 0):
            accuracy = sampled_accuracy(model, tokenizer, held_out, settings.max_response)
            model.train()
            bar.set_postfix(accuracy=accuracy)
            if accuracy >= low:
                break
    if not low <= accuracy <= high:
        raise RuntimeError(
            f"the toy model's held-out accuracy is {accuracy:.3f}, not between {low} and {high}; more steps raise it "
            f"(at most {settings.steps} now), so does less label_smoothing ({settings.label_smoothing} now)"
        )
    return accuracy


def build_toy_model(out: Path, settings: ToyModelSettings | None = None) -> float:
    """Build the model for sums (build_trained); return the sampled accuracy on held-out problems."""
    settings = settings or ToyModelSettings()
    problems = list(toy_problems("train", seed=settings.seed, count=settings.train_problems))
    held_out = list(toy_problems("test", seed=settings.seed, count=settings.test_problems))
    return build_trained(out, problems, held_out, worked_solution, settings)


def build_trained(
    out: Path,
    problems: Sequence[Problem],
    held_out: Sequence[Problem],
    solution: Callable[[Problem], str],
    settings: ToyModelSettings,
) -> float:
    """Build tokenizer and model, train them on the solutions and write a Hugging Face model directory to `out`.

    Returns the sampled accuracy on held_out. Raises RuntimeError if it is outside settings.accuracy, FileExistsError if
    `out` exists, another error if it cannot be written; then nothing is written.
    """
    if out.exists():
        raise FileExistsError(f"{out}: exists and is not a complete model; remove it or name another directory")
    texts = [format_prompt(problem.text) + "\n" + solution(problem) for problem in problems[:512]]
    tokenizer = build_tokenizer([*texts, "<|im_start|>user\n", "<|im_start|>assistant\n"], settings.vocab_size)
    model = build_model(tokenizer, settings)
    accuracy = train(model, tokenizer, problems, held_out, solution, settings)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a killed build
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    Console().print(f"toy model in {out}: {model.num_parameters():,} parameters, accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    build_toy_model(Path(sys.argv[1]))
