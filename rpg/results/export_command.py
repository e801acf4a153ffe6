"""`rpg export CKPT`: convert a checkpoint to a Hugging Face model directory with verl's merger."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rpg.results.eval_command import find_checkpoint
from rpg.results.run_settings import ResultsError, refusing

ADAPTER = "lora_adapter"  # verl's merger writes the adapter there, beside the base model
MERGE_ADAPTER = f"import sys; from {__name__} import merge_adapter; merge_adapter(sys.argv[1])"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    parser.add_argument(
        "checkpoint", type=Path, metavar="CKPT", help="run directory (its newest complete one) or global_step_N in it"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: CKPT/global_step_N/hf")


@refusing
def run(args: argparse.Namespace) -> int:
    """Merge; return 2 without a checkpoint or a place for the model, 1 if the merger fails."""
    checkpoint, remarks = find_checkpoint(args.checkpoint)
    out = args.out or checkpoint / "hf"
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise ResultsError(f"{out}: not an empty directory; remove it or give another --out")
    for remark in remarks:
        print(f"rpg export: {remark}", file=sys.stderr)
    try:
        export(checkpoint / "actor", out)
    except subprocess.CalledProcessError as error:
        print(error.output, f"rpg export: {error}", sep="\n", file=sys.stderr)
        return 1
    print(f"{out}: exported from {checkpoint}")
    return 0


def export(actor: Path, out: Path) -> None:
    """Merge `actor` into `out`, which is created only if that succeeds. Raises subprocess.CalledProcessError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.partial-") as folder:
        partial = Path(folder) / out.name
        python("-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", actor, "--target_dir", partial)
        if (partial / ADAPTER).is_dir():
            python("-c", MERGE_ADAPTER, partial)
        os.umask(umask := os.umask(0))
        for file in filter(Path.is_file, partial.rglob("*")):
            file.chmod(0o666 & ~umask)  # safetensors ignores the umask and writes 0600
        partial.replace(out)


def merge_adapter(model: str) -> None:
    """Merge the adapter that verl's merger wrote into the base model, in place; keep the adapter as well.

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
    """Run Python with `arguments` in a separate process, for isolation from a model directory's content.

    Its output is shown only if it fails. Raises subprocess.CalledProcessError with the output.
    """
    # read a checkpoint as data, although verl's merger passes weights_only=False
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
    command = [sys.executable, *map(str, arguments)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
