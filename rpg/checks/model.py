"""Checks of the model's directory."""

import json
import os
from pathlib import Path
from typing import Any

from rpg.checks.data import elsewhere
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import MODEL
from rpg.diagnostics import Findings
from rpg.names import logit_changes

PATH = f"{MODEL}.path"


def model_directory(run: RunConfig) -> Findings:
    """A local model is there, with weights that can be trained; a hub name is in the cache if the hub is off."""
    path, directory = run[PATH], run.model
    local = path.startswith(("/", "./", "../", "~")) or path.count("/") > 1 or os.path.exists(directory)
    if elsewhere(path) or (not local and not _hub_is_off(run)):
        return
    if not local and (cached := _in_hub_cache(path)):
        directory = cached
    if not os.path.isdir(directory):  # also False if no file can have this name
        message = "no such directory" if local else "is not in the hub's cache, and HF_HUB_OFFLINE forbids a download"
        made = "`rpg demo --prepare-only` makes SmolLM2, with --model toy the toy"
        yield run.error(PATH, message, f"name a Hugging Face model directory; {made}")
        return
    adapter = directory / "adapter_config.json"
    if adapter.is_file() and not (directory / "config.json").is_file():
        config = json.loads(adapter.read_bytes())
        message = "is a LoRA adapter without its model"
        remedy = (
            f"set {PATH} to {config.get('base_model_name_or_path')}; to go on with the adapter set "
            f"{MODEL}.lora_adapter_path to this directory and {MODEL}.lora_rank to {config.get('r')}, or merge it into "
            "the model (peft)"
        )
        yield run.error(PATH, message, remedy)
        return
    try:
        model_config = json.loads((directory / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        yield run.error(PATH, f"config.json cannot be read ({error})", "is this a Hugging Face model directory?")
        return
    if quantised := _quantised(model_config):
        message = f"its weights are quantised (quantization_config of config.json: {quantised}) and cannot be trained"
        yield run.error(PATH, message, "use the model with weights in bfloat16 from which it was made")
    if not any(directory.glob("tokenizer*")) and run[f"{MODEL}.tokenizer_path"] is None:
        yield run.error(PATH, "no tokenizer files", f"save the tokenizer there, or set {MODEL}.tokenizer_path")
    if not any(file.stat().st_size for pattern in ("*.safetensors", "*.bin") for file in directory.glob(pattern)):
        yield run.error(PATH, "no weights (*.safetensors or pytorch_model*.bin)", "copy the model again")


def _quantised(model_config: Any) -> str | None:
    """Return how a model's or its text model's weights are quantised, by config.json; None if they are not."""
    text = model_config.get("text_config") if isinstance(model_config, dict) else None
    for config in (model_config, text):
        if isinstance(config, dict) and (quantised := config.get("quantization_config")):
            return str((isinstance(quantised, dict) and quantised.get("quant_method")) or quantised)
    return None


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


def _hub_is_off(run: RunConfig) -> bool:
    variables = {**run.rpg.env, **os.environ}
    value = variables.get("HF_HUB_OFFLINE") or variables.get("TRANSFORMERS_OFFLINE")
    return str(value).lower() in ("1", "true", "yes", "on")  # as huggingface_hub reads it


def _in_hub_cache(name: str) -> Path | None:
    """Return the directory of a hub model's files in the hub's cache, or None."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        file = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # not a name of the hub
        return None
    return Path(file).parent if isinstance(file, str) else None
