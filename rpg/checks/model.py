"""Checks of the model's directory."""

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import MODEL
from rpg.diagnostics import Findings
from rpg.names import logit_changes

PATH = f"{MODEL}.path"


def model_directory(run: RunConfig) -> Findings:
    """A local model is there."""
    if str(run.model).startswith(("/", "./", "../")) and not run.model.is_dir():  # else a name of the hub
        yield run.error(PATH, "no such directory", "give another (`rpg demo --model toy --prepare-only` makes the toy)")


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
            message = f"has quantised weights ({quantised}), which cannot be trained"
            yield run.error(PATH, message, "use the unquantised model from which it was made")
            return
    fused = f"{MODEL}.use_fused_kernels"
    if run[fused] and (changes := logit_changes(config)):
        message = f"with {run.shown(PATH)}: verl's kernel leaves out its {', '.join(changes)}"
        yield run.error(fused, f"{message}, and would train on other log-probs", "set it to false")
