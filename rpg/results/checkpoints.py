"""A run's checkpoint: find it, and export it as a Hugging Face model directory with verl's merger."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rpg.files import manifest
from rpg.files.integrity import STEP, newest_complete, steps
from rpg.results.messages import ResultsError

ADAPTER = "lora_adapter"  # verl's merger writes the adapter there, beside the base model
MERGE_ADAPTER = f"import sys; from {__name__} import merge_adapter; merge_adapter(sys.argv[1])"


def find_checkpoint(path: Path, *, contents: bool = True) -> tuple[Path, list[str]]:
    """Return a path's global_step_N, or the newest complete one of a run directory, and notes.

    The notes name skipped checkpoints with reasons.
    contents: whether to verify the checksums of a global_step_N.

    Raises ResultsError: no complete checkpoint; OSError: it cannot be read.
    """
    directory = path.parent if path.name == "actor" else path
    if steps(path):
        choice = newest_complete(path)
        remarks = [f"{skipped}: skipped: {why}" for skipped, why in choice.passed_over.items()]
        found = choice.newest
    elif (directory / "actor").is_dir() and STEP.fullmatch(directory.name):  # verl reads the step from the name
        why = manifest.fault(directory, contents=contents)
        found, remarks = (None, [f"{directory}: {why}; use an earlier global_step_N"]) if why else (directory, [])
    else:
        raise ResultsError(f"{path}: no checkpoint is there; give the directory of a run, or its global_step_N")
    if found is None:
        raise ResultsError("\n".join([*remarks, f"{path}: no complete checkpoint"]))
    return found, remarks


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
    """Merge the adapter that verl's merger wrote into the base model, in float32 and in place; keep the adapter too.

    bfloat16 would round most of a small update away, which rollouts and evaluations add to each product.

    Raises ValueError: verl did not save the adapter's scale, and its merger wrote 0.
    """
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype="float32", trust_remote_code=False)
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
