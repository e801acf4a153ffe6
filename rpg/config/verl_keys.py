"""verl's keys that this package knows more about than verl's defaults say: their types, and three lists."""

import os
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt, TypeAdapter

from rpg.config.section import Fraction, Line
from rpg.names import CLIP_BRANCHES, CLIP_SCOPES

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
LOSS = f"{ACTOR}.policy_loss"
OPTIM = f"{ACTOR}.optim"
FSDP = f"{ACTOR}.fsdp_config"
CORRECTION = "algorithm.rollout_correction"
FUNCTION = "reward.custom_reward_function"
JUDGE = f"{FUNCTION}.reward_kwargs.judge"
REWARD = "rpg.reward"  # chooses judge=own, which sets REWARD_FILE
REWARD_FILE = f"{FUNCTION}.reward_kwargs.file"
EXTERNAL_LIB = "rpg.external_lib"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
RAY = "ray_kwargs.ray_init"
SEPARATE = "separate_async"  # of trainer.v1.trainer_mode


def _in(section: str, *names: str) -> list[str]:
    return [f"{section}.{name}" for name in names]


# What a resume may change, with the keys below it: speed and memory, names and places, length, validation, saving.
# Files and models are compared by their contents (record.py). The recipe leaves critic, distillation and the reward
# model off; verl repeats other settings there.
RESUMABLE = (
    *_in(ACTOR,
         "checkpoint", "ppo_max_token_len_per_gpu", "ppo_micro_batch_size_per_gpu", "profiler", "use_fused_kernels"),
    *_in(FSDP,
         "entropy_from_logits_with_chunking", "offload_policy", "optimizer_offload", "param_offload",
         "use_torch_compile"),
    *_in(MODEL, "enable_gradient_checkpointing", "override_config.attn_implementation", "use_fused_kernels"),
    *_in(REF,
         "fsdp_config.offload_policy", "fsdp_config.param_offload", "log_prob_max_token_len_per_gpu",
         "log_prob_micro_batch_size_per_gpu", "log_prob_use_dynamic_bsz", "profiler"),
    *_in(ROLLOUT,
         "agent.num_workers", "checkpoint_engine", "disable_log_stats", "enable_prefix_caching", "free_cache_engine",
         "gpu_memory_utilization", "log_prob_max_token_len_per_gpu", "log_prob_micro_batch_size_per_gpu",
         "max_model_len", "max_num_batched_tokens", "max_num_seqs", "n_gpus_per_node", "nnodes", "profiler",
         "prometheus", "trace", "val_kwargs"),
    *_in("data",
         "filter_overlong_prompts_workers", "gen_batch_size", "val_batch_size", "val_files", "val_max_samples",
         "validation_shuffle"),
    *_in("rpg",
         "console", "data_dir", "env", "gpu_memory", "left_out_limit", "max_num_seqs", "nonfinite_limit", "pi_old",
         "poll_interval", "preload", "resume_changed", "reward_limit", "script", "stall_limit", "time_limit",
         "truncated_sampling"),
    *_in("trainer",
         "checkpoint_callback_class", "default_hdfs_dir", "default_local_dir", "del_local_ckpt_after_load",
         "esi_redundant_time", "experiment_name", "logger", "log_val_generations", "max_actor_ckpt_to_keep",
         "max_critic_ckpt_to_keep", "n_gpus_per_node", "nnodes", "project_name", "ray_wait_register_center_timeout",
         "resume_from_path", "resume_mode", "rollout_data_dir", "save_freq", "test_freq", "total_epochs",
         "total_training_steps", "val_before_train", "val_only", "validation_data_dir"),
    "algorithm.filter_groups.max_num_gen_batches", "critic", "distillation",
    "reward.reward_model", "global_profiler", "ray_kwargs", "reward.num_workers", "transfer_queue",
)  # fmt: skip

# What an accuracy is measured by: numbers compare only between runs in which these are equal.
VALIDATION = (
    "data.val_files", "data.val_max_samples", "data.max_prompt_length", "data.max_response_length",
    "data.apply_chat_template_kwargs", "data.filter_overlong_prompts", f"{MODEL}.custom_chat_template",
    *(f"{ROLLOUT}.val_kwargs.{name}" for name in ("n", "do_sample", "temperature", "top_p", "top_k")),
    f"{FUNCTION}.reward_kwargs",
)  # fmt: skip

# Copies, read or not, that the configuration derives from a key; a resolved one no longer does.
FOLLOWERS = {
    "data.max_prompt_length": [f"{ROLLOUT}.prompt_length"],
    "data.max_response_length": [f"{ROLLOUT}.response_length", "reward.reward_kwargs.max_resp_len"],
    f"{ROLLOUT}.n": [f"{ACTOR}.rollout_n", f"{REF}.rollout_n"],
}

# What is opened as a path: written without ~ and without a / at its end.
PATHS = (
    f"{MODEL}.path", f"{MODEL}.tokenizer_path", f"{MODEL}.hf_config_path", "data.train_files", "data.val_files",
    "trainer.resume_from_path", "trainer.validation_data_dir", "trainer.rollout_data_dir", REWARD, REWARD_FILE,
    EXTERNAL_LIB,
)  # fmt: skip


def _without_variables(path: str) -> str:
    if os.path.expandvars(path) != path:
        raise ValueError("has a variable, which Ray would expand to another directory; set CKPTS_DIR elsewhere")
    return path


# Types of keys whose default in verl says none, or allows a value that is silently wrong; null too where verl's is null
_TYPES: dict[Any, tuple[str, ...]] = {
    PositiveInt: (
        f"{ACTOR}.ppo_epochs",
        f"{ACTOR}.ppo_mini_batch_size",
        "trainer.max_actor_ckpt_to_keep",
        "trainer.total_training_steps",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        f"{OVERLONG}.len",
    ),
    PositiveFloat: (f"{ROLLOUT}.temperature", f"{LOSS}.z_old", f"{OPTIM}.clip_grad"),  # 0 would be no gradient
    NonNegativeFloat: (
        "trainer.v1.colocate_async.num_warmup_batches",
        "trainer.v1.separate_async.num_warmup_batches",
        f"{OVERLONG}.penalty_factor",
    ),
    Annotated[int, Field(ge=-1)]: (f"{OPTIM}.lr_warmup_steps",),  # verl would take 0.1 as less than a step
    Fraction: (f"{OPTIM}.lr_warmup_steps_ratio",),
    Annotated[float, Field(gt=1)]: (f"{ACTOR}.clip_ratio_c",),
    Line | Annotated[list[Line], Field(min_length=1)]: ("data.train_files", "data.val_files"),
    Annotated[Line, AfterValidator(_without_variables)]: ("trainer.default_local_dir", "trainer.validation_data_dir"),
    str | list[str]: ("trainer.logger", f"{MODEL}.target_modules"),
    str | float | None: (f"{CORRECTION}.rollout_is_threshold",),
    int | None: ("trainer.v1.sampler.max_off_policy_threshold",),
    Literal["fsdp2"]: (f"{ACTOR}.strategy", f"{REF}.strategy"),  # our worker and reference are written for it
    Literal[True]: ("trainer.use_v1",),  # the plugin is written for verl's V1 trainer
    Literal["auto", "disable", "resume_path"]: ("trainer.resume_mode",),  # another would empty the logs, and then fail
    bool: (f"{OVERLONG}.enable",),
    dict: (RAY, "reward.reward_kwargs", f"{FUNCTION}.reward_kwargs"),  # whatever their readers take
    list[str]: ("algorithm.gdpo_reward_keys",),
    list[float]: ("algorithm.gdpo_reward_weights",),
    Literal[CLIP_SCOPES]: (f"{LOSS}.clip_scope",),
    Literal[CLIP_BRANCHES]: (f"{LOSS}.clip_branch",),
}
TYPES: dict[str, TypeAdapter[Any]] = {
    key: TypeAdapter(kind, config={"strict": True, "allow_inf_nan": False})
    for kind, keys in _TYPES.items()
    for key in keys
}
