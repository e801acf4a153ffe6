"""verl's keys that this package knows more about than verl's defaults say: their types, and three lists."""

import os
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter

from rpg.config.section import Line
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
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
RAY = "ray_kwargs.ray_init"
SEPARATE = "separate_async"  # of trainer.v1.trainer_mode

# What a resume may change, with the keys below it: speed and memory, names and places, length, validation, saving.
# Files and models are compared by their contents (record.py).
RESUMABLE = (
    f"{ACTOR}.checkpoint", f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    f"{ACTOR}.profiler", f"{ACTOR}.use_fused_kernels", f"{FSDP}.entropy_from_logits_with_chunking",
    f"{FSDP}.offload_policy", f"{FSDP}.optimizer_offload", f"{FSDP}.param_offload", f"{FSDP}.use_torch_compile",
    f"{OPTIM}.total_training_steps",
    f"{MODEL}.enable_gradient_checkpointing", f"{MODEL}.override_config.attn_implementation",
    f"{MODEL}.use_fused_kernels", "actor_rollout_ref.nccl_timeout",
    f"{REF}.fsdp_config.offload_policy", f"{REF}.fsdp_config.param_offload", f"{REF}.log_prob_max_token_len_per_gpu",
    f"{REF}.log_prob_micro_batch_size_per_gpu", f"{REF}.log_prob_use_dynamic_bsz", f"{REF}.profiler",
    f"{REF}.use_fused_kernels",
    f"{ROLLOUT}.agent.num_workers", f"{ROLLOUT}.checkpoint_engine", f"{ROLLOUT}.disable_log_stats",
    f"{ROLLOUT}.enable_prefix_caching", f"{ROLLOUT}.free_cache_engine", f"{ROLLOUT}.gpu_memory_utilization",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.max_num_seqs",
    f"{ROLLOUT}.n_gpus_per_node", f"{ROLLOUT}.nnodes", f"{ROLLOUT}.profiler", f"{ROLLOUT}.prometheus",
    f"{ROLLOUT}.trace", f"{ROLLOUT}.val_kwargs",
    "algorithm.filter_groups.max_num_gen_batches",
    "data.filter_overlong_prompts_workers", "data.gen_batch_size", "data.val_batch_size",
    "data.val_files", "data.val_max_samples", "data.validation_shuffle",
    "critic", "distillation", "reward.reward_model",  # which the recipe leaves off; verl repeats other settings there
    "global_profiler", "ray_kwargs", "reward.num_workers", "transfer_queue",
    "rpg.console", "rpg.data_dir", "rpg.env", "rpg.gpu_memory", "rpg.left_out_limit",
    "rpg.max_num_seqs", "rpg.nonfinite_limit", "rpg.pi_old", "rpg.poll_interval", "rpg.preload", "rpg.resume_changed",
    "rpg.reward_limit", "rpg.script", "rpg.stall_limit", "rpg.time_limit", "rpg.truncated_sampling",
    "trainer.checkpoint_callback_class", "trainer.default_hdfs_dir", "trainer.default_local_dir",
    "trainer.del_local_ckpt_after_load", "trainer.esi_redundant_time", "trainer.experiment_name", "trainer.logger",
    "trainer.log_val_generations", "trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep",
    "trainer.n_gpus_per_node", "trainer.nnodes", "trainer.project_name", "trainer.ray_wait_register_center_timeout",
    "trainer.resume_from_path", "trainer.resume_mode", "trainer.rollout_data_dir", "trainer.save_freq",
    "trainer.test_freq", "trainer.total_epochs", "trainer.total_training_steps", "trainer.val_before_train",
    "trainer.val_only", "trainer.validation_data_dir",
)  # fmt: skip

# What an accuracy is measured by: numbers compare only between runs in which these are equal.
VALIDATION = (
    "data.val_files", "data.val_max_samples", "data.max_prompt_length", "data.max_response_length",
    "data.apply_chat_template_kwargs", f"{MODEL}.custom_chat_template",
    *(f"{ROLLOUT}.val_kwargs.{name}" for name in ("n", "do_sample", "temperature", "top_p", "top_k")),
    f"{FUNCTION}.reward_kwargs",
)  # fmt: skip

# What verl opens as a path: written without ~ and without a / at its end.
PATHS = (
    f"{MODEL}.path", f"{MODEL}.tokenizer_path", f"{MODEL}.hf_config_path", "data.train_files", "data.val_files",
    "trainer.resume_from_path", "trainer.validation_data_dir", "trainer.rollout_data_dir",
)  # fmt: skip


def _one_directory(name: str) -> str:
    if "/" in name or name in (".", ".."):
        raise ValueError("names one directory, so it must not be . or .. or contain a /")
    return name


def _without_variables(path: str) -> str:
    if os.path.expandvars(path) != path:
        raise ValueError("has a variable, which Ray would expand to another directory; set CKPTS_DIR elsewhere")
    return path


Share = Annotated[float, Field(gt=0, le=1)]
Files = Line | Annotated[list[Line], Field(min_length=1)]
Logger = Literal["console", "file", "wandb", "tensorboard", "mlflow", "swanlab", "clearml", "trackio", "vemlp_wandb",
                 "rl_insight"]  # fmt: skip
Bounds = Annotated[str, Field(pattern=r"^[\d.e-]+_[\d.e-]+$")]  # LOWER_UPPER
Thresholds = Annotated[str, Field(pattern=r"^[\d.e+\-_, ]+$")]  # one per criterion

# Keys that may be null although verl's default is not
NULLABLE = (
    f"{CORRECTION}.rollout_is_threshold", "trainer.v1.sampler.max_off_policy_threshold", f"{FUNCTION}.reward_kwargs",
)  # fmt: skip
# Types of keys whose default in verl says none, or allows a value that is silently wrong or that a check cannot read;
# null too where verl's default is null
_TYPES: dict[Any, tuple[str, ...]] = {
    PositiveInt: (
        "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.ppo_epochs", f"{ROLLOUT}.n",
        f"{ACTOR}.ulysses_sequence_parallel_size", f"{FSDP}.ulysses_sequence_parallel_size",
        f"{REF}.ulysses_sequence_parallel_size", f"{REF}.fsdp_config.ulysses_sequence_parallel_size",
        f"{ROLLOUT}.tensor_model_parallel_size", "trainer.n_gpus_per_node", "trainer.nnodes",
        "trainer.total_training_steps", "trainer.max_actor_ckpt_to_keep", f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{ROLLOUT}.max_model_len", "trainer.v1.sampler.max_off_policy_threshold", f"{OVERLONG}.len",
        f"{RAY}.num_cpus",
    ),
    NonNegativeInt: (
        f"{MODEL}.lora_rank", f"{ROLLOUT}.n_gpus_per_node", f"{ROLLOUT}.nnodes", "data.seed", f"{RAY}.num_gpus",
    ),
    Annotated[int, Field(ge=-1)]: ("trainer.save_freq", "trainer.test_freq", f"{ROLLOUT}.top_k"),
    PositiveFloat: (f"{ROLLOUT}.temperature", f"{LOSS}.z_old"),
    NonNegativeFloat: (
        f"{LOSS}.kl_coef", f"{OVERLONG}.penalty_factor", "trainer.v1.colocate_async.num_warmup_batches",
        "trainer.v1.separate_async.num_warmup_batches",
    ),
    Annotated[float, Field(gt=1)]: (f"{ACTOR}.clip_ratio_c",),
    Share: (f"{ROLLOUT}.top_p", f"{ROLLOUT}.val_kwargs.top_p", f"{ROLLOUT}.gpu_memory_utilization"),
    PositiveFloat | Bounds: (f"{CORRECTION}.rollout_is_threshold",),
    PositiveFloat | Thresholds: (f"{CORRECTION}.rollout_rs_threshold",),
    Literal["token", "sequence"]: (f"{CORRECTION}.rollout_is",),
    Line: (
        f"{LOSS}.loss_mode", "algorithm.adv_estimator", "data.prompt_key", "reward.reward_manager.name",
        f"{MODEL}.external_lib", f"{CORRECTION}.rollout_rs", "algorithm.filter_groups.metric", f"{MODEL}.path",
        f"{MODEL}.tokenizer_path", f"{MODEL}.lora_adapter_path", f"{FUNCTION}.path", "trainer.resume_from_path",
        "trainer.rollout_data_dir",
    ),
    Files: ("data.train_files", "data.val_files"),
    Annotated[Line, AfterValidator(_without_variables)]: ("trainer.default_local_dir", "trainer.validation_data_dir"),
    Annotated[Line, AfterValidator(_one_directory)]: ("trainer.experiment_name",),
    Logger | Annotated[list[Logger], Field(min_length=1)]: ("trainer.logger",),
    Literal["fsdp2"]: (f"{ACTOR}.strategy", f"{REF}.strategy"),  # our worker and reference are written for it
    Literal["cuda", "cpu", "npu"]: ("trainer.device",),
    Literal["auto", "disable", "resume_path"]: ("trainer.resume_mode",),
    Literal["sync", "colocate_async", "separate_async"]: ("trainer.v1.trainer_mode",),
    Literal[True]: ("trainer.use_v1",),  # the plugin is written for verl's V1 trainer
    dict: (
        "reward.reward_kwargs", f"{FUNCTION}.reward_kwargs", OVERLONG, RAY, f"{RAY}.runtime_env",
        f"{RAY}.runtime_env.env_vars",
    ),
    bool: (f"{OVERLONG}.enable",),
    Literal[CLIP_SCOPES]: (f"{LOSS}.clip_scope",),
    Literal[CLIP_BRANCHES]: (f"{LOSS}.clip_branch",),
}  # fmt: skip
TYPES: dict[str, TypeAdapter[Any]] = {
    key: TypeAdapter(kind, config={"strict": True, "allow_inf_nan": False})
    for kind, keys in _TYPES.items()
    for key in keys
}
