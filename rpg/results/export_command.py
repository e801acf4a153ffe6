"""`rpg export CKPT`: a checkpoint as a Hugging Face model directory, through verl's own merger, and tried out."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rpg.data.template import format_prompt
from rpg.results.eval_command import find_checkpoint
from rpg.results.settings import ResultsError

QUESTION = "What is 27 + 15?"
MAX_NEW_TOKENS = 256
ANSWER = "\nANSWER "  # before it stands whatever libraries print
MERGE = f"import sys; from {__name__} import merge_adapter; merge_adapter(sys.argv[1])"
ADAPTER = "lora_adapter"  # where verl's merger puts it, beside a base model without it
ASK = f"import sys; from {__name__} import ask; print({ANSWER!r} + ask(*sys.argv[1:]))"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    parser.add_argument(
        "checkpoint", type=Path, metavar="CKPT", help="run directory (its newest complete one) or global_step_N in it"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: CKPT/global_step_N/hf")
    parser.add_argument("--ask", default=QUESTION, metavar="TEXT", help=f"the question (default: {QUESTION})")


def run(args: argparse.Namespace) -> int:
    """Merge, load back, ask; 2 where there is nothing to export or no place for it, 1 where a step fails."""
    code = 2
    try:
        checkpoint, remarks = find_checkpoint(args.checkpoint)
        out = args.out or checkpoint / "hf"
        if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
            raise ResultsError(f"{out}: not an empty directory; remove it or give another --out")
        for remark in remarks:
            print(f"rpg export: {remark}", file=sys.stderr)
        code = 1
        answer = export(checkpoint / "actor", out, args.ask)
    except (ResultsError, OSError) as error:
        print(f"rpg export: {error}", file=sys.stderr)
        return code
    print(f"{out}: exported from {checkpoint}")
    print(f"question: {args.ask}\nanswer:   {answer.strip()}")
    return 0


def export(actor: Path, out: Path, question: str) -> str:
    """Merge `actor` into `out` and return the model's answer; `out` is whole or absent, so that one can try again.

    Raises:
        ResultsError: the merger failed, or transformers cannot use what it wrote.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.partial-") as folder:
        partial = Path(folder) / out.name
        merger = ["-m", "verl.model_merger", "merge", "--backend", "fsdp"]
        python([*merger, "--local_dir", str(actor), "--target_dir", str(partial)], f"{actor}: verl's merger")
        if (partial / ADAPTER).is_dir():
            python(["-c", MERGE, str(partial)], f"{actor}: merging the LoRA adapter into the model")
        printed = python(["-c", ASK, str(partial), question], f"{actor}: merged, but loading it with transformers")
        os.umask(umask := os.umask(0))
        for file in filter(Path.is_file, partial.rglob("*")):
            file.chmod(0o666 & ~umask)  # safetensors writes 0600, whatever the umask
        partial.replace(out)
    return printed.rpartition(ANSWER)[2]


def merge_adapter(model: str) -> None:
    """Merge the adapter that verl's merger put beside the base model into it, in place; the adapter stays as well.

    Raises:
        ValueError: verl did not save the adapter's scale, and its merger wrote 0.
    """
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype="auto", trust_remote_code=False)
    adapted = PeftModel.from_pretrained(base, os.path.join(model, ADAPTER))
    if not adapted.peft_config["default"].lora_alpha:  # type: ignore[union-attr]
        raise ValueError("lora_train_meta.json of the checkpoint has no lora_alpha: the adapter's scale is unknown")
    adapted.merge_and_unload().save_pretrained(model)  # type: ignore[operator]


def python(arguments: list[str], what: str) -> str:
    """Run Python with `arguments` and return what it printed.

    A process of its own, because what a model directory makes merger and transformers raise has no bounds.

    Raises:
        ResultsError: it failed; the message begins with `what` and ends with the end of its output.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        # a checkpoint is read as data, though verl's merger asks torch to run what stands in it
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"},
        check=False,
    )
    if done.returncode:
        end = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ResultsError(f"{what} ended with {done.returncode}:\n{end}")
    return done.stdout


def ask(model: str, question: str) -> str:
    """Load the exported directory with transformers and answer one question, greedily, on the CPU."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True, trust_remote_code=False)
    loaded = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype="auto", trust_remote_code=False)
    messages = [{"role": "user", "content": format_prompt(question)}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        output = loaded.generate(  # type: ignore[attr-defined] # its protocol is too narrow
            **inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False
        )
    return tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
