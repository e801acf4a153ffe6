"""`rpg export CKPT`: a checkpoint as a Hugging Face model directory, through verl's own merger, and tried out."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from rpg.data.template import format_prompt

QUESTION = "What is 27 + 15?"
MAX_NEW_TOKENS = 256


class ExportError(ValueError):
    """A checkpoint that cannot be exported; the message says which and what to do."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    parser.add_argument(
        "checkpoint", type=Path, metavar="CKPT", help="run directory (its latest checkpoint) or global_step_N in it"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: CKPT/global_step_N/hf")
    parser.add_argument("--ask", default=QUESTION, metavar="TEXT", help=f"the question (default: {QUESTION})")


def run(args: argparse.Namespace) -> int:
    """Merge, load back, ask; 1 where one of them fails."""
    try:
        actor = find_actor(args.checkpoint)
        out = args.out or actor.parent / "hf"
        merge(actor, out)
        answer = ask(out, args.ask)
    except (ExportError, OSError) as error:
        print(f"rpg export: {error}", file=sys.stderr)
        return 1
    print(f"{out}: exported from {actor}")
    print(f"question: {args.ask}\nanswer:   {answer.strip()}")
    return 0


def find_actor(checkpoint: Path) -> Path:
    """The actor's directory of a checkpoint: of the latest one where a run directory is given.

    Raises:
        ExportError: no checkpoint there, or one that was not written to its end.
    """
    latest = checkpoint / "latest_checkpointed_iteration.txt"
    if latest.is_file():
        checkpoint = checkpoint / f"global_step_{latest.read_text().strip()}"
    actor = checkpoint if checkpoint.name == "actor" else checkpoint / "actor"
    if not actor.is_dir():
        raise ExportError(
            f"{checkpoint}: no checkpoint there; give a run directory with latest_checkpointed_iteration.txt, "
            "or its global_step_N"
        )
    if not (actor / "fsdp_config.json").is_file() or not (actor / "huggingface" / "config.json").is_file():
        raise ExportError(
            f"{actor}: fsdp_config.json or huggingface/config.json is missing; the checkpoint is not whole "
            "(or not of the FSDP engine): take an earlier global_step_N"
        )
    return actor


def merge(actor: Path, out: Path) -> None:
    """Put the shards together with `python -m verl.model_merger merge`.

    Raises:
        ExportError: `out` holds something already, or the merger failed; with the end of what it said.
    """
    if out.exists() and any(out.iterdir()):
        raise ExportError(f"{out}: not empty; remove it or give another --out")
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(actor), "--target_dir", str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False
    )
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ExportError(f"{actor}: verl's merger ended with {done.returncode}:\n{said}")


def ask(model: Path, question: str) -> str:
    """Load the exported directory with transformers and answer one question, greedily, on the CPU.

    Raises:
        ExportError: the directory cannot be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        loaded = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype="auto")
    except (OSError, ValueError) as error:
        raise ExportError(f"{model}: exported, but transformers cannot load it: {error}") from error
    messages = [{"role": "user", "content": format_prompt(question)}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        output = loaded.generate(  # type: ignore[attr-defined] # its protocol is too narrow
            **inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False
        )
    return tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
