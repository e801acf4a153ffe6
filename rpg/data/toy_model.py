"""The model of the toy task: a byte-level tokenizer and a Qwen2 of half a million parameters, from scratch.

Built and briefly trained on the machine itself, so that the demo downloads nothing. The training
stops on purpose at a sampled accuracy between 0.2 and 0.5: reinforcement learning then has something
to start from and something left to learn.
"""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rpg.data.schema import Problem
from rpg.data.template import format_prompt
from rpg.data.toy import toy_problems
from rpg.rewards import compute_score

# The turn markers of Qwen2.5, so that the toy prompt has the form of the real one.
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclasses.dataclass(frozen=True)
class ToyModelSettings:
    """Sizes and training of the toy model; the defaults are those of the demo.

    accuracy: the supervised training stops when the sampled accuracy on held-out problems is inside
        this interval (low, high).
    max_steps: more than this without reaching the interval is an error.
    """

    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    vocab_size: int = 400
    batch_size: int = 128
    learning_rate: float = 2e-3
    accuracy: tuple[float, float] = (0.25, 0.45)
    eval_every: int = 20
    max_steps: int = 1500
    train_problems: int = 6000
    test_problems: int = 256
    seed: int = 0


def response(answer: str) -> str:
    """The response the supervised training teaches: the line that the prompt asks for."""
    return f"Answer: {answer}"


def build_tokenizer(texts: Sequence[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which each digit is one token, trained on texts.

    vLLM samples only tokens that the tokenizer knows, so the model's vocabulary is made equal to
    len(tokenizer) and never padded.
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


def build_model(tokenizer: PreTrainedTokenizerFast, settings: ToyModelSettings) -> Qwen2ForCausalLM:
    """A randomly initialised Qwen2 whose vocabulary is the tokenizer's."""
    torch.manual_seed(settings.seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=settings.hidden_size,
            intermediate_size=2 * settings.hidden_size,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads // 2,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
            pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        )
    )


def encode_prompt(tokenizer: PreTrainedTokenizerFast, problem: str) -> list[int]:
    """Token ids of the prompt exactly as verl's agent loop builds it (chat template, generation prompt)."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": format_prompt(problem)}], add_generation_prompt=True, tokenize=False
    )
    return tokenizer.encode(str(text), add_special_tokens=False)


@torch.no_grad()
def sampled_accuracy(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    problems: Sequence[Problem],
    max_new_tokens: int = 16,
) -> float:
    """Share of problems answered rightly by one sample each at temperature 1."""
    prompts = [encode_prompt(tokenizer, problem.text) for problem in problems]
    width = max(map(len, prompts))
    pad = tokenizer.pad_token_id
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    model.eval()
    out = model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=max_new_tokens, do_sample=True, top_k=0, top_p=1.0
    )
    texts = tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
    pairs = zip(texts, problems, strict=True)
    scores = [compute_score(p.data_source, text, p.ground_truth) for text, p in pairs]
    return sum(score["acc"] for score in scores) / len(scores)


def train(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    train_problems: Sequence[Problem],
    test_problems: Sequence[Problem],
    settings: ToyModelSettings,
    console: Console,
) -> float:
    """Supervised training on the answers until the held-out accuracy is inside settings.accuracy.

    Returns the sampled accuracy at the end. Raises RuntimeError when it jumps over the interval or
    does not reach it within settings.max_steps.
    """
    low, high = settings.accuracy
    encoded = []
    for problem in train_problems:
        prompt = encode_prompt(tokenizer, problem.text)
        target = [*tokenizer.encode(response(problem.ground_truth), add_special_tokens=False), tokenizer.eos_token_id]
        encoded.append((prompt + target, len(prompt)))
    width = max(len(ids) for ids, _ in encoded)
    ids = torch.full((len(encoded), width), tokenizer.pad_token_id)
    labels = torch.full((len(encoded), width), -100)
    for row, (tokens, prompt_length) in enumerate(encoded):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        labels[row, prompt_length : len(tokens)] = torch.tensor(tokens[prompt_length:])
    attention = ids != tokenizer.pad_token_id

    generator = torch.Generator().manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    for step in range(1, settings.max_steps + 1):
        model.train()
        batch = torch.randint(len(encoded), (settings.batch_size,), generator=generator)
        warmup = min(1.0, step / 50)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * warmup
        out = model(input_ids=ids[batch], attention_mask=attention[batch], labels=labels[batch])
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % settings.eval_every == 0:
            accuracy = sampled_accuracy(model, tokenizer, test_problems)
            console.print(f"  supervised step {step:4d}  loss {out.loss.item():.3f}  held-out accuracy {accuracy:.3f}")
            if low <= accuracy <= high:
                return accuracy
            if accuracy > high:
                raise RuntimeError(
                    f"the toy model's accuracy went from below {low} to {accuracy:.3f}, over {high}, between two "
                    f"evaluations: lower eval_every ({settings.eval_every}) or learning_rate ({settings.learning_rate})"
                )
    raise RuntimeError(f"the toy model did not reach accuracy {low} in {settings.max_steps} steps: raise max_steps")


def build_toy_model(out: Path, settings: ToyModelSettings | None = None) -> float:
    """Build tokenizer and model, train them, write a Hugging Face model directory to out.

    Returns the held-out sampled accuracy.
    """
    settings = settings or ToyModelSettings()
    console = Console()
    began = time.monotonic()
    train_problems = list(toy_problems("train", seed=settings.seed, count=settings.train_problems))
    test_problems = list(toy_problems("test", seed=settings.seed, count=settings.test_problems))
    texts = [format_prompt(p.text) + "\n" + response(p.ground_truth) for p in train_problems[:512]]
    texts += ["<|im_start|>user\n", "<|im_start|>assistant\n"]
    tokenizer = build_tokenizer(texts, settings.vocab_size)
    model = build_model(tokenizer, settings)
    console.print(f"toy model: {model.num_parameters():,} parameters, vocabulary {len(tokenizer)}")
    accuracy = train(model, tokenizer, train_problems, test_problems, settings, console)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    console.print(f"toy model in {out}: accuracy {accuracy:.3f} after {time.monotonic() - began:.0f} s")
    return accuracy
