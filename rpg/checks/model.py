"""Checks of the model's directory."""

import json
import os
from pathlib import Path
from typing import Any

from rpg.checks.data import elsewhere
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Diagnostic, Findings
from rpg.names import logit_changes

ADAPTER = "adapter_config.json"


def model_directory(run: RunConfig) -> Findings:
    """A local model can be trained and is complete: config.json, no quantised weights, tokenizer, weights that open.

    Skips a hub name, unless the hub is switched off: then its files in the hub's cache are looked at.
    """
    from safetensors import SafetensorError, safe_open

    s, again = run.settings, "copy the model again"
    directory = _model_here(run)
    if directory is None:
        return
    if isinstance(directory, Diagnostic):
        yield directory
        return
    if (directory / ADAPTER).is_file() and not (directory / "config.json").is_file():
        yield _adapter_alone(run, directory / ADAPTER)
        return
    try:
        model_config = json.loads((directory / "config.json").read_bytes())
        kind = ".safetensors" if any(directory.glob("*.safetensors")) else ""  # which are loaded if there are both
        maps = [dict(json.loads(index.read_bytes())["weight_map"]) for index in directory.glob(f"*{kind}.index.json")]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        message = f"config.json or the index of the weights cannot be read ({error})"
        yield s.error("model", message, "is this a Hugging Face model directory?")
        return
    if not isinstance(model_config, dict) or "model_type" not in model_config:
        yield s.error("model", "config.json has no model_type", "is this a Hugging Face model directory?")
    elif quantised := _quantised(model_config):
        message = f"its weights are quantised (quantization_config of config.json: {quantised}) and cannot be trained"
        yield s.error("model", message, "use the model with weights in bfloat16 from which it was made")
    if not any(directory.glob("tokenizer*")) and s.tokenizer is None:
        yield s.error("model", "no tokenizer files", f"save the tokenizer there, or set {KEYS['tokenizer']}")
    weights = [*directory.glob("*.safetensors"), *directory.glob("pytorch_model*.bin")]
    if not weights:
        yield s.error("model", "no weights (*.safetensors or pytorch_model*.bin)", again)
    missing = {name for weight_map in maps for name in weight_map.values()} - {file.name for file in weights}
    for shard in sorted(missing):
        yield s.error("model", f"{shard} is missing, but the index of the weights lists it", again)
    for file in (file for file in weights if file.suffix == ".safetensors"):
        try:
            with safe_open(file, "numpy"):
                pass
        except (SafetensorError, OSError) as error:
            yield s.error("model", f"{file.name}: is incomplete or damaged ({error})", again)


def _adapter_alone(run: RunConfig, file: Path) -> Diagnostic:
    """Return the error of a directory with a LoRA adapter and no model. file: its adapter_config.json."""
    try:
        adapter = dict(json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        adapter = {}
    base, rank = adapter.get("base_model_name_or_path") or "its base model", adapter.get("r") or "its rank"
    continued = f"set {KEYS['lora_path']} to this directory and {KEYS['lora_rank']} to {rank}"
    remedy = f"set MODEL_PATH to {base}; to go on with the adapter {continued}, or merge it into the model (peft)"
    return run.settings.error("model", "is a LoRA adapter without its model", remedy)


def _quantised(model_config: dict[str, Any]) -> str | None:
    """Return the method with which the model's or its text model's weights are quantised, or None."""
    for config in (model_config, model_config.get("text_config")):
        if isinstance(config, dict) and (quantised := config.get("quantization_config")):
            return str((isinstance(quantised, dict) and quantised.get("quant_method")) or quantised)
    return None


def architecture(run: RunConfig) -> Findings:
    """transformers knows the model's architecture, its configuration has the heads that verl reads of every model, and
    verl's fused kernel computes its logits.

    Skips a hub name that is not here.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    s, directory = run.settings, _model_here(run)
    if not isinstance(directory, Path):
        return
    try:
        config = AutoConfig.from_pretrained(directory, trust_remote_code=bool(s.trust_remote_code))
        text_config = config.get_text_config()
    except (ValueError, ImportError, StrictDataclassError) as error:
        yield s.error("model", f"transformers does not read its config.json: {' '.join(str(error).split())}")
        return
    for name in ("num_attention_heads", "num_key_value_heads"):
        if not hasattr(text_config, name):
            message = f"{text_config.model_type} has no {name}, which verl's FSDP engine needs"
            yield s.error("model", message, "use another architecture, such as Llama, Qwen or Phi")
    if s.fused and (changes := logit_changes(config)):
        message = f"with {s.shown('model')}: verl's kernel leaves out {', '.join(changes)} of its configuration"
        yield s.error("fused", f"{message}, and would train on other log-probs", "set it to false")


def _model_here(run: RunConfig) -> Path | Diagnostic | None:
    """Return the model's directory, what is wrong with the path, or None for a model that is loaded from elsewhere."""
    path, directory = run.settings.model, run.model
    if os.path.isdir(directory):  # also False if no file can have this name
        return directory
    looks_local = path.startswith(("/", "./", "../", "~")) or path.count("/") > 1 or os.path.exists(directory)
    if elsewhere(path) or (not looks_local and not _hub_is_off(run)):
        return None
    if not looks_local and (cached := _in_hub_cache(path)):
        return cached
    message = "is a file, not a directory" if os.path.exists(directory) else "no such directory"
    if not looks_local:
        message += ", nor a model in the hub's cache; HF_HUB_OFFLINE (set by profile=cpu) forbids a download"
    made = "`rpg demo --prepare-only` makes SmolLM2, with --model toy the toy"
    download = "" if looks_local else "HF_HUB_OFFLINE=0 to download it, or "
    remedy = f"set {download}MODEL_PATH to a Hugging Face model directory; {made}"
    return run.settings.error("model", message, remedy)


def _hub_is_off(run: RunConfig) -> bool:
    variables = {**run.settings.env, **os.environ}
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
