"""The fingerprint of a training: the settings that must not change when a run resumes.

It has all settings except those of FREE, and is stored as fingerprint.json in the run's directory.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rpg.config.check import Refused
from rpg.config.external_lib import EXTERNAL, OWN, libraries, source
from rpg.config.reward import FUNCTION, KWARGS, is_ours, through_adapter
from rpg.config.run_config import RunConfig, below, leaves
from rpg.config.settings import ACTOR, MODEL
from rpg.data.diagnostics import ABSENT, Diagnostic, shown
from rpg.files.atomic import FINGERPRINT as NAME
from rpg.files.atomic import append_record, write_whole

HISTORY = "history.jsonl"

# Settings that may change between two starts of a run; a name includes all keys below it.
LOOKS = ("trainer.test_freq", "trainer.val_before_train")  # validation frequency, which "Best" depends on
HOW_OFTEN = (
    "trainer.save_freq", "trainer.max_actor_ckpt_to_keep",
    "trainer.max_critic_ckpt_to_keep", "trainer.resume_mode", "trainer.resume_from_path", "trainer.esi_redundant_time",
    "trainer.del_local_ckpt_after_load", "trainer.checkpoint_callback_class", "rpg.resume_changed",
    "rpg.stall_limit", "rpg.time_limit", "rpg.max_num_seqs", "rpg.nonfinite_limit", "rpg.reward_limit",
    "rpg.left_out_limit", "algorithm.filter_groups.max_num_gen_batches",
)  # fmt: skip
HOW_FAST = (  # the update is the same
    "rpg.poll_interval", "rpg.gpu_memory", "rpg.preload", "rpg.env", "ray_kwargs", "transfer_queue",
    "reward.num_workers",
    "trainer.nnodes", "trainer.n_gpus_per_node", "actor_rollout_ref.rollout.nnodes",
    "actor_rollout_ref.rollout.n_gpus_per_node", "trainer.ray_wait_register_center_timeout",
    "data.filter_overlong_prompts_workers", "actor_rollout_ref.nccl_timeout",
    "actor_rollout_ref.model.override_config.attn_implementation", "actor_rollout_ref.model.use_fused_kernels",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.model.enable_gradient_checkpointing", "actor_rollout_ref.actor.use_fused_kernels",
    "actor_rollout_ref.ref.use_fused_kernels", "actor_rollout_ref.actor.fsdp_config.param_offload",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload", "actor_rollout_ref.actor.fsdp_config.offload_policy",
    "actor_rollout_ref.ref.fsdp_config.param_offload", "actor_rollout_ref.ref.fsdp_config.offload_policy",
    "actor_rollout_ref.actor.checkpoint", "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", "actor_rollout_ref.rollout.gpu_memory_utilization",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", "actor_rollout_ref.rollout.max_num_seqs",
    "actor_rollout_ref.rollout.max_model_len",
    "actor_rollout_ref.rollout.max_num_batched_tokens", "actor_rollout_ref.rollout.enable_prefix_caching",
    "actor_rollout_ref.rollout.free_cache_engine", "actor_rollout_ref.rollout.agent.num_workers",
    "actor_rollout_ref.rollout.checkpoint_engine",
)  # fmt: skip
FREE = (
    *LOOKS,
    *HOW_OFTEN,
    *HOW_FAST,
    # length of the run, but SCHEDULE
    "trainer.total_training_steps", "trainer.total_epochs", "trainer.val_only",
    # repeats what other keys set
    "rpg.pi_old",
    # paths: files are identified by their content
    "trainer.default_local_dir", "trainer.default_hdfs_dir", "trainer.experiment_name", "trainer.project_name",
    "trainer.validation_data_dir", "trainer.rollout_data_dir", OWN, "rpg.data_dir", "rpg.script", "data.train_files",
    "actor_rollout_ref.model.path", "actor_rollout_ref.model.tokenizer_path", "actor_rollout_ref.model.hf_config_path",
    "actor_rollout_ref.actor.optim.total_training_steps",
    # logging, display and evaluation
    "trainer.logger", "trainer.log_val_generations", "rpg.console", "data.val_files", "data.val_batch_size",
    "data.val_max_samples", "data.validation_shuffle", "actor_rollout_ref.rollout.val_kwargs",
    "actor_rollout_ref.rollout.disable_log_stats", "actor_rollout_ref.rollout.prometheus",
    "actor_rollout_ref.rollout.trace", "actor_rollout_ref.rollout.profiler", "actor_rollout_ref.actor.profiler",
    "actor_rollout_ref.ref.profiler", "global_profiler",
)  # fmt: skip
MODEL_FILE = f"{MODEL}.path (config.json)"
WEIGHTS, TOKENIZER = f"{MODEL}.path (weights)", f"{MODEL}.path (tokenizer)"
TOKENIZER_FILES = ("*token*.json", "chat_template*", "vocab.*", "merges.txt", "*.model")
SAMPLE = 2**20  # bytes at either end of a weights file; reading all of a large model takes minutes
SCHEDULE = f"{ACTOR}.optim (length of its schedule)"
CODE = (  # files of the user's that decide what is trained
    "data.custom_cls.path", "data.sampler.class_path", "data.tool_config_path", "data.function_tool_path",
    "actor_rollout_ref.rollout.agent.agent_loop_config_path", "reward.reward_manager.module.path",
)  # fmt: skip
# what older versions did not record
UNKNOWN = (MODEL_FILE, WEIGHTS, TOKENIZER, SCHEDULE, *(f"{key} (content)" for key in CODE))
# settings that older versions lacked, with the value that acted then
ADDED = {"rpg.kl_scope": "token", "rpg.rho_bound": 2.0}
ADDED_TO_LOSS = {f"{ACTOR}.policy_loss.{key.removeprefix('rpg.')}": value for key, value in ADDED.items()}
# sections that have no effect while they are switched off; verl repeats other settings in them
OFF = {
    "critic": "critic.enable",
    "distillation": "distillation.enabled",
    "reward.reward_model": "reward.reward_model.enable",
}


def of_today(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a run's settings by dotted key with those that its version lacked."""
    has_our_loss = f"{ACTOR}.policy_loss.kl_coef" in settings
    return {**ADDED, **(ADDED_TO_LOSS if has_our_loss else {}), **settings}


def defining(run: RunConfig) -> dict[str, Any]:
    """Return the settings that define a training, by dotted key, and hashes of its data, model and user's code."""
    off = [section for section, switch in OFF.items() if not run.get(switch)]
    values = {key: value for key, value in leaves(run.config) if not below(key, (*FREE, *off))}
    files = [Path(name).expanduser() for name in run.files("train")]
    values["data.train_files (content)"] = [_content(file) for file in files if file.is_file()]
    path = run.get(f"{FUNCTION}.path")
    reward = Path(run.get(f"{KWARGS}.file") or path or "").expanduser()
    if reward.is_file() and not is_ours(path):
        values[f"{FUNCTION}.path (content)"] = _content(reward)
    for name in libraries(run):
        if file := source(name):
            values.setdefault(f"{EXTERNAL} ({file.name}, content)", []).append(_content(file))  # names may repeat
    for key in CODE:
        if isinstance(name := run.get(key), str) and (file := Path(name).expanduser()).is_file():
            values[f"{key} (content)"] = _content(file)
    config = run.model / "config.json"
    values[MODEL_FILE] = _content(config) if config.is_file() else run.get(f"{MODEL}.path")  # a hub name
    values[WEIGHTS] = _sampled([*run.model.glob("*.safetensors"), *run.model.glob("*.bin")])
    tokenizer = Path(run.get(f"{MODEL}.tokenizer_path") or run.model).expanduser()
    values[TOKENIZER] = _sampled({file for pattern in TOKENIZER_FILES for file in tokenizer.glob(pattern)})
    optim = run.get(f"{ACTOR}.optim") or {}
    if optim.get("lr_scheduler_type", "constant") != "constant" or (optim.get("lr_warmup_steps_ratio") or 0) > 0:
        values[SCHEDULE] = run.get("trainer.total_training_steps") or f"{run.get('trainer.total_epochs')} epochs"
    return values


def _content(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sampled(files: Iterable[Path]) -> str | None:
    """Return a hash of names, sizes, and both ends of files; None without files."""
    known, files = hashlib.sha256(), sorted(filter(Path.is_file, files))
    for file in files:
        with open(file, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            known.update(f"{file.name} {size}\n".encode())
            for start in (0, max(0, size - SAMPLE)):
                stream.seek(start)
                known.update(stream.read(SAMPLE))
    return known.hexdigest() if files else None


def comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a fingerprint as it is recorded now; an own reward is known by its content, wherever the file is."""
    settings = through_adapter(of_today(settings))
    if f"{FUNCTION}.path (content)" in settings:
        settings.pop(f"{KWARGS}.file", None)
    return settings


def compare(directory: Path, run: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from the run in a directory: key -> (recorded, current); {} without a run."""
    file = directory / NAME
    if not file.is_file():
        return {}
    try:
        recorded = json.loads(file.read_text())
    except ValueError as error:
        remedy = f"remove it, if {directory} holds the same training"
        raise Refused([Diagnostic(str(file), ABSENT, f"cannot be read: {error}", remedy)]) from error
    recorded = {
        key: value for key, value in recorded.items() if not below(key, FREE)
    }  # an older version may have had fewer settings
    recorded, current = map(comparable, (recorded, json.loads(json.dumps(defining(run)))))
    recorded |= {key: current[key] for key in UNKNOWN if key in current and recorded.get(key) is None}
    return {
        key: (recorded.get(key, "(not there)"), current.get(key, "(not there)"))
        for key in sorted({*recorded, *current})
        if recorded.get(key, ABSENT) != current.get(key, ABSENT)
    }


def refuse_another(directory: Path, run: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the differing settings if the run may resume with them (rpg.resume_changed); {} if there are none.

    A run with trainer.resume_mode=disable may always start.

    Raises:
        Refused: the directory holds a run with other settings.
    """
    if run.get("trainer.resume_mode") == "disable":
        return {}
    changed = compare(directory, run)
    if not changed or run.get("rpg.resume_changed"):
        return changed
    ways = (
        "choose another name (trainer.experiment_name, CKPTS_DIR), or resume with the new settings by "
        "rpg.resume_changed=true"
    )
    raise Refused(
        [
            Diagnostic(key, current, f"the run in {directory} has {shown(recorded)}", ways)
            for key, (recorded, current) in changed.items()
        ]
    )


def record(directory: Path, run: RunConfig, step: int, changed: dict[str, tuple[Any, Any]], **made_with: Any) -> None:
    """Write the fingerprint, and a line of history with time, step, changed settings and what the run is made with."""
    write_whole(directory / NAME, json.dumps(defining(run), indent=1, sort_keys=True) + "\n")
    started = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "after_step": step,
        "changed": {key: list(values) for key, values in changed.items()},
        **made_with,
    }
    append_record(directory / HISTORY, started)
