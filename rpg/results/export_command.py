"""`rpg export CKPT`: a checkpoint as a Hugging Face model directory, through verl's own merger."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rpg.results.eval_command import find_checkpoint
from rpg.results.run_settings import ResultsError, refusing

ADAPTER = "lora_adapter"  # where verl's merger puts it, beside a base model without it
MERGE_ADAPTER = f"import sys; from {__name__} import merge_adapter; merge_adapter(sys.argv[1])"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    parser.add_argument(
        "checkpoint", type=Path, metavar="CKPT", help="run directory (its newest complete one) or global_step_N in it"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: CKPT/global_step_N/hf")


@refusing
def run(args: argparse.Namespace) -> int:
    """Merge; 2 where there is nothing to export or no place for it, 1 where the merger fails."""
    checkpoint, remarks = find_checkpoint(args.checkpoint)
    out = args.out or checkpoint / "hf"
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise ResultsError(f"{out}: not an empty directory; remove it or give another --out")
    for remark in remarks:
        print(f"rpg export: {remark}", file=sys.stderr)
    try:
        export(checkpoint / "actor", out)
    except subprocess.CalledProcessError as error:
        print(f"rpg export: {error}", file=sys.stderr)
        return 1
    print(f"{out}: exported from {checkpoint}")
    return 0


def export(actor: Path, out: Path) -> None:
    """Merge `actor` into `out`, which is whole or absent. Raises subprocess.CalledProcessError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.partial-") as folder:
        partial = Path(folder) / out.name
        python("-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", actor, "--target_dir", partial)
        if (partial / ADAPTER).is_dir():
            python("-c", MERGE_ADAPTER, partial)
        os.umask(umask := os.umask(0))
        for file in filter(Path.is_file, partial.rglob("*")):
            file.chmod(0o666 & ~umask)  # safetensors writes 0600, whatever the umask
        partial.replace(out)


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


def python(*arguments: str | Path) -> None:
    """Run Python with `arguments`: a process of its own, because what a model directory makes the merger do is open.

    Raises subprocess.CalledProcessError.
    """
    # a checkpoint is read as data, though verl's merger asks torch to run what stands in it
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
    subprocess.run([sys.executable, *map(str, arguments)], env=environment, check=True)
