"""Hours of a row of the paper's tables on 8 H100, by arithmetic: nothing here was measured.

python scripts/hours.py    # the table of recipe/rpg/README.md

A step samples 512 x 16 responses, computes old log-probs (one pass) and updates (three passes, one more to recompute
activations). A pass takes 2 FLOPs a parameter and token; attention's own are left out. A decoding step reads all
weights and the keys and values of the responses in flight. Left out: validation, checkpoints, the start, groups that
dynamic sampling drops, and GRPO's reference, which is a sixth pass.
"""

from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf

from rpg.plan import MODELS

CONFIG = Path(__file__).resolve().parents[1] / "recipe/rpg/config"
GPUS, STEPS, RESPONSES = 8, 400, 512 * 16  # Appendix H
PASSES = 1 + 3 + 1
FLOPS, BANDWIDTH = 989e12, 3.35e12  # a second, of an H100 SXM's data sheet: dense bf16, memory
PROMPT = 200  # tokens; assumed
ROWS = {  # tables: model, entry of max_num_seqs, context
    "8": ("Qwen/Qwen2.5-7B-Instruct", "qwen2_7b", "2k"),
    "6": ("Qwen/Qwen3-4B", "qwen3_4b", "2k"),
    "5, 7": ("Qwen/Qwen3-4B", "qwen3_4b", "4k"),
    "3": ("Qwen/Qwen3-4B", "qwen3_4b", "8k"),
}


class Rates(NamedTuple):
    """Assumed: mean response / longest response, share of a GPU's FLOPs, share of its bandwidth."""

    length: float
    flops: float
    bandwidth: float


FAST, SLOW = Rates(0.35, 0.43, 0.7), Rates(0.8, 0.25, 0.5)


def hours(model: str, entry: str, context: str, rates: Rates) -> float:
    """Return the hours of a row."""
    shape = MODELS[model.removesuffix("-Instruct")]
    settings = OmegaConf.load(CONFIG / f"context/{context}.yaml")
    longest, in_flight = settings.data.max_response_length, settings.rpg.max_num_seqs[entry]
    response, sequences = rates.length * longest, RESPONSES / GPUS
    computed = PASSES * 2 * shape.parameters * sequences * (PROMPT + response) / (rates.flops * FLOPS)
    decodings = sequences * response / in_flight + longest  # the longest responses finish alone
    token = 4 * shape.layers * shape.kv_heads * shape.head_dim  # bytes of keys and values in bf16
    read = decodings * 2 * shape.parameters + sequences * response * (PROMPT + response / 2) * token
    return STEPS * (computed + read / (rates.bandwidth * BANDWIDTH)) / 3600


def table() -> str:
    """Return the table of recipe/rpg/README.md."""
    lines = ["|table|model, context|hours on 8 H100|GPU hours|", "|---|---|---|---|"]
    for name, row in ROWS.items():
        fast, slow = (round(hours(*row, rates)) for rates in (FAST, SLOW))
        label = f"{row[0].partition('/')[2]}, {row[2].upper()}"
        lines.append(f"|{name}|{label}|{fast} to {slow}|{GPUS * fast} to {GPUS * slow}|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
