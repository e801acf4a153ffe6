"""`rpg export CKPT`: convert a checkpoint to a Hugging Face model directory, or to a checkpoint of other ranks."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rpg.arguments import at_least
from rpg.diagnostics import UserError
from rpg.results.runs import find_checkpoint

ADAPTER = "lora_adapter"  # verl's merger writes the adapter there, beside the base model


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    which = "run directory (its newest complete checkpoint) or global_step_N in it"
    parser.add_argument("checkpoint", type=Path, metavar="CKPT", help=which)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to create (default: RUN/hf-global_step_N)")
    ranks = "instead write a checkpoint into --out with which N ranks (GPUs x nodes) can resume"
    parser.add_argument("--ranks", type=at_least(1), metavar="N", help=ranks)


def run(args: argparse.Namespace) -> int:
    """Merge; return 2 without a checkpoint or a place for the model, 1 if the merger fails, which leaves nothing."""
    if args.ranks and not args.out:
        raise UserError(f"--ranks {args.ranks}: needs --out DIR")
    checkpoint = find_checkpoint(args.checkpoint)
    out = args.out or checkpoint.with_name(f"hf-{checkpoint.name}")  # beside the checkpoint, which the run may delete
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(f"{out}: not an empty directory; remove it or give another --out")
    if args.ranks:
        from rpg.results.reshard import reshard

        reshard(checkpoint, out, args.ranks)
        print(f"{out / checkpoint.name}: for {args.ranks} ranks, from {checkpoint}")
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.partial-") as folder:
        partial = Path(folder) / out.name
        merger = ["-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", str(checkpoint / "actor")]
        # another process, which the model directory's content does not reach; it reads a checkpoint as data, although
        # verl's merger passes weights_only=False
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
        command = [sys.executable, *merger, "--target_dir", str(partial)]
        if subprocess.run(command, env=environment, check=False).returncode:
            return 1  # the merger has said why
        if (partial / ADAPTER).is_dir():
            merge_adapter(str(partial))
        partial.replace(out)
    print(f"{out}: exported from {checkpoint}")
    return 0


def merge_adapter(model: str) -> None:
    """Merge the adapter that verl's merger wrote into the base model, in float32 and in place; keep the adapter too.

    bfloat16 would round most of a small update away, which rollouts and evaluations add to each product.

    Raises UserError: verl did not save the adapter's scale, and its merger wrote 0.
    """
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype="float32", trust_remote_code=False)
    adapted = PeftModel.from_pretrained(base, os.path.join(model, ADAPTER))
    if not adapted.peft_config["default"].lora_alpha:  # type: ignore[union-attr]
        raise UserError("lora_train_meta.json of the checkpoint: no lora_alpha, the adapter's scale; add the run's")
    adapted.merge_and_unload().save_pretrained(model)  # type: ignore[operator]
