"""A run's checkpoint: find it, and export it as a Hugging Face model directory with verl's merger."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rpg.diagnostics import UserError
from rpg.files import manifest
from rpg.files.integrity import STEP, newest_complete
from rpg.results.runs import show_notes

ADAPTER = "lora_adapter"  # verl's merger writes the adapter there, beside the base model


def find_checkpoint(path: Path, *, contents: bool = True) -> Path:
    """Return a path that is a global_step_N, or the newest complete one of a run directory.

    Notes name skipped checkpoints with reasons. contents: whether to verify checksums.
    Raises UserError: no complete checkpoint.
    """
    if STEP.fullmatch(path.name):  # verl reads the step from the name
        if why := manifest.fault(path, contents=contents):
            raise UserError(f"{path}: {why}; use an earlier global_step_N")
        return path
    choice = newest_complete(path, contents=contents)
    show_notes(f"{skipped}: skipped: {why}" for skipped, why in choice.passed_over.items())
    if choice.newest is None:
        raise UserError(f"{path}: no complete checkpoint; give the directory of a run, or its global_step_N")
    return choice.newest


def export(actor: Path, out: Path) -> None:
    """Merge `actor` into `out`, which is created only if that succeeds. Raises subprocess.CalledProcessError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.partial-") as folder:
        partial = Path(folder) / out.name
        merger = ["-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", str(actor)]
        # another process, which the model directory's content does not reach; it reads a checkpoint as data, although
        # verl's merger passes weights_only=False
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
        subprocess.run([sys.executable, *merger, "--target_dir", str(partial)], env=environment, check=True)
        if (partial / ADAPTER).is_dir():
            merge_adapter(str(partial))
        partial.replace(out)


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
        raise UserError("lora_train_meta.json of the checkpoint has no lora_alpha: the adapter's scale is unknown")
    adapted.merge_and_unload().save_pretrained(model)  # type: ignore[operator]
