"""Checks of the model's directory."""

import json
from typing import Any

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import MODEL
from rpg.diagnostics import Findings
from rpg.names import logit_changes

PATH = f"{MODEL}.path"
LOCAL = ("/", "./", "../")  # how a path begins that is no name of the hub


def model_directory(run: RunConfig) -> Findings:
    """A local model is there, with weights that can be trained."""
    directory = run.model
    if not directory.is_dir():
        if str(directory).startswith(LOCAL):
            yield run.error(PATH, "no such directory", "name one; `rpg demo --prepare-only` makes SmolLM2 or the toy")
        return
    adapter, config = directory / "adapter_config.json", directory / "config.json"
    if adapter.is_file() and not config.is_file():
        made = json.loads(adapter.read_bytes())
        remedy = f"set it to {made.get('base_model_name_or_path')}, {MODEL}.lora_rank={made.get('r')} and"
        yield run.error(PATH, "is a LoRA adapter without its model", f"{remedy} {MODEL}.lora_adapter_path to this")
        return
    try:
        quantised = _quantised(json.loads(config.read_bytes()))
    except (OSError, ValueError, AttributeError) as error:
        yield run.error(PATH, f"config.json cannot be read ({error})", "is this a Hugging Face model directory?")
        return
    if quantised:
        message = f"its weights are quantised (quantization_config of config.json: {quantised}) and cannot be trained"
        yield run.error(PATH, message, "use the model with weights in bfloat16 from which it was made")


def _quantised(config: dict[str, Any]) -> str | None:
    """Return how a model's or its text model's weights are quantised, by config.json; None if they are not."""
    quantised = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config")
    return quantised and str(quantised.get("quant_method") or quantised)


def logits(run: RunConfig) -> Findings:
    """verl's fused kernel computes the model's logits; it would train on other log-probs of one that changes them.

    Skips a model that is not here, and a configuration that transformers does not read.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    fused = f"{MODEL}.use_fused_kernels"
    if not run[fused] or not run.model.is_dir():
        return
    try:
        config = AutoConfig.from_pretrained(run.model, trust_remote_code=bool(run[f"{MODEL}.trust_remote_code"]))
    except (OSError, ValueError, ImportError, StrictDataclassError):  # transformers ends the run with it
        return
    if changes := logit_changes(config):
        message = f"with {run.shown(PATH)}: verl's kernel leaves out its {', '.join(changes)}"
        yield run.error(fused, f"{message}, and would train on other log-probs", "set it to false")
