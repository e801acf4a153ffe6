"""The command that validates a checkpoint through a launch script, with the settings of its run's config.yaml."""

import sys
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rpg.config.compose import compose_config, of_script
from rpg.config.fingerprint import FREE
from rpg.config.overrides import key_of, override
from rpg.config.own_reward import JUDGE
from rpg.config.reward import FUNCTION, KWARGS
from rpg.config.run_config import RunConfig, below, leaves
from rpg.config.settings import ACTOR, MODEL, REF, ROLLOUT
from rpg.data.diagnostics import ABSENT
from rpg.files.atomic import CONFIG
from rpg.registry.recipe import Script
from rpg.results.runs import read_mapping

# settings that may change on a resume, and that an evaluation needs
EVALUATED = (
    f"{MODEL}.path", f"{MODEL}.tokenizer_path", f"{MODEL}.hf_config_path", "data.train_files", "data.val_files",
    "data.val_max_samples", f"{ROLLOUT}.val_kwargs", "trainer.experiment_name", "trainer.logger", "rpg.env",
    # what the run's machine needed; the checkpoint is loaded by as many ranks as saved it
    "trainer.nnodes", "trainer.n_gpus_per_node", f"{ROLLOUT}.nnodes", f"{ROLLOUT}.n_gpus_per_node",
    f"{MODEL}.override_config.attn_implementation", f"{MODEL}.use_fused_kernels",
    f"{ACTOR}.fsdp_config", f"{REF}.fsdp_config", f"{ROLLOUT}.gpu_memory_utilization",
    f"{ROLLOUT}.max_num_seqs", f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.max_num_batched_tokens",
)  # fmt: skip


def overrides_of_run(script: Script, config: dict[str, Any], user_overrides: list[str]) -> list[str]:
    """Return the overrides by which the script gets a run's settings, before those that the user gave.

    Settings of a training are those of its fingerprint. A setting that the script derives from another, such as a
    length from data.max_response_length, is set only if it still differs, so that `user_overrides` may change its
    source.

    Raises:
        BadSetting or Refused: the script cannot be composed.
    """
    wanted = {key: value for key, value in leaves(config) if below(key, EVALUATED) or not below(key, FREE)}
    plain = OmegaConf.to_container(compose_config([override("rpg.script", script.name), *script.overrides]))
    derived = {key for key, value in leaves(plain) if isinstance(value, str) and "${" in value}
    made = _changes(of_script(script, []), {key: value for key, value in wanted.items() if key not in derived})
    has = RunConfig(config).get(KWARGS) or {}
    made += [f"~{KWARGS}.{key}" for key in RunConfig(plain).get(KWARGS) or {} if key not in has]  # type: ignore[arg-type]
    made += _changes(of_script(script, made), wanted)
    keys = {key_of(text) for text in user_overrides}
    if any(below(key, [FUNCTION, JUDGE]) for key in keys):  # another reward function has other keywords
        keys.add(FUNCTION)
    return [text for text in made if not below(key_of(text), keys)]


def _changes(composed: RunConfig, wanted: dict[str, Any]) -> list[str]:
    """Return overrides for the values that a composed configuration lacks or has otherwise."""
    changes = []
    for key, value in wanted.items():
        current = composed.get(key, ABSENT)
        if current != value:
            changes.append(("++" if current is ABSENT else "") + override(key, value))
    return changes


def command_of(script: Script, checkpoint: Path | None, out: Path, overrides: list[str]) -> list[str]:
    """Return the command of the script's run with overrides to validate once and stop; `overrides` win.

    Raises:
        ResultsError: the configuration of the checkpoint's run cannot be read.
        BadSetting or Refused: a setting that a configuration cannot hold, or a script that cannot be composed.
    """
    command = [*script.command, "trainer.val_only=True", "trainer.val_before_train=True"]
    command.append(override("trainer.default_local_dir", out.absolute()))
    if checkpoint is None:
        return [*command, "trainer.resume_mode=disable", *overrides]
    # the script's preflight verifies the checkpoint's contents
    command += ["trainer.resume_mode=resume_path", override("trainer.resume_from_path", checkpoint.absolute())]
    command.append(f"{ACTOR}.checkpoint.load_contents=[model]")  # no optimizer is needed
    config = checkpoint.parent / CONFIG
    if not config.is_file():
        print(f"note: {config} is missing: the settings are the script's, not the run's", file=sys.stderr)
        return [*command, *overrides]
    return [*command, *overrides_of_run(script, read_mapping(config), overrides), *overrides]
