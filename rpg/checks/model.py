"""Checks of the model's directory."""

import json

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import MODEL
from rpg.diagnostics import Findings
from rpg.names import logit_changes

PATH = f"{MODEL}.path"
LOCAL = ("/", "./", "../")  # how a path begins that is no name of the hub


def model_directory(run: RunConfig) -> Findings:
    """A local model is there, and is no adapter alone."""
    if str(run.model).startswith(LOCAL) and not run.model.is_dir():
        yield run.error(PATH, "no such directory", "name one; `rpg demo --prepare-only` makes SmolLM2 or the toy")
    adapter = run.model / "adapter_config.json"
    if adapter.is_file() and not (run.model / "config.json").is_file():
        made = json.loads(adapter.read_bytes())
        remedy = f"set it to {made.get('base_model_name_or_path')}, {MODEL}.lora_rank={made.get('r')} and"
        yield run.error(PATH, "is a LoRA adapter without its model", f"{remedy} {MODEL}.lora_adapter_path to this")


def trained_as_it_is(run: RunConfig) -> Findings:
    """The model's weights are not quantised, and verl's fused kernel computes its logits; it would train on other
    log-probs of a model that changes them.

    Skips a model that is not here, and a configuration that transformers does not read.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    if not run.model.is_dir():
        return
    try:
        config = AutoConfig.from_pretrained(run.model, trust_remote_code=bool(run[f"{MODEL}.trust_remote_code"]))
    except (OSError, ValueError, ImportError, StrictDataclassError):  # transformers ends the run with it
        return
    for part in (config, config.get_text_config()):
        if quantised := getattr(part, "quantization_config", None):
            message = f"its weights are quantised ({quantised}) and cannot be trained"
            yield run.error(PATH, message, "use the model with weights in bfloat16 from which it was made")
            return
    fused = f"{MODEL}.use_fused_kernels"
    if run[fused] and (changes := logit_changes(config)):
        message = f"with {run.shown(PATH)}: verl's kernel leaves out its {', '.join(changes)}"
        yield run.error(fused, f"{message}, and would train on other log-probs", "set it to false")
