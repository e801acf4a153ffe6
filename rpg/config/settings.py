"""The settings that the package reads, by name: each with its key, type and range.

`Settings` is a typed view of a resolved configuration. Its annotations are the ranges that `types.py` checks; RANGES
also has those of keys that verl would ignore, or check only after Ray has started. verl's own dataclasses check the
rest. pydantic is strict: "300" is not a number, true is not 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
)

from rpg.data.diagnostics import Diagnostic, Level, shown
from rpg.names import CLIP_BRANCHES, CLIP_SCOPES, DIVERGENCES, KL_SCOPES, PI_OLD, REFERENCES

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
FUNCTION = "reward.custom_reward_function"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
CORRECTION = "algorithm.rollout_correction"
SAMPLER = "trainer.v1.sampler.max_off_policy"
RAY = "ray_kwargs.ray_init"
BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
OPTIM = f"{ACTOR}.optim"
SCHEDULES = ("sync", "colocate_async", "separate_async")
LONGEST_NAME, LONGEST_PATH = 255, 2000  # bytes; Linux allows 4095, and file names are appended


def _fits_a_file_system(path: str) -> str:
    if any(len(name.encode()) > LONGEST_NAME for name in path.split("/")) or len(path.encode()) > LONGEST_PATH:
        raise ValueError(f"longer than a file system allows ({LONGEST_NAME} bytes a name, {LONGEST_PATH} in all)")
    return path


def _one_directory(name: str) -> str:
    if "/" in name or name in (".", ".."):
        raise ValueError("names one directory, so it must not be . or .. or contain a /")
    return name


Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f\s][^\x00-\x1f\x7f]*$")]
FilePath = Annotated[Line, AfterValidator(_fits_a_file_system)]
RunName = Annotated[FilePath, AfterValidator(_one_directory)]
Files = FilePath | Annotated[list[FilePath], Field(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
OrMinusOne = Annotated[int, Field(ge=-1)]
Bounds = Annotated[str, Field(pattern=r"^[\d.e-]+_[\d.e-]+$")]  # LOWER_UPPER
Thresholds = Annotated[str, Field(pattern=r"^[\d.e+\-_, ]+$")]  # one per criterion
RhoBound = Annotated[float, Field(gt=0, le=20)]  # exp(20 + 20), with a token's own rho, is far from overflow
Port = Annotated[int, Field(ge=1, le=65535)]
Logger = Literal["console", "file", "wandb", "tensorboard", "mlflow", "swanlab", "clearml", "trackio", "vemlp_wandb",
                 "rl_insight"]  # fmt: skip
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def at(key: str) -> Any:
    """Declare a field of Settings with its dotted key."""
    return field(metadata={"key": key})


@dataclass(frozen=True)
class Settings:
    """The settings that rules read. A key that the configuration lacks is None."""

    # batches and parallelism
    batch: PositiveInt = at("data.train_batch_size")
    mini_batch: PositiveInt = at(f"{ACTOR}.ppo_mini_batch_size")
    n: PositiveInt = at(f"{ROLLOUT}.n")
    gpus: PositiveInt = at("trainer.n_gpus_per_node")
    nodes: PositiveInt = at("trainer.nnodes")
    sequence_parallel: PositiveInt = at(f"{ACTOR}.ulysses_sequence_parallel_size")
    tensor_parallel: PositiveInt = at(f"{ROLLOUT}.tensor_model_parallel_size")
    data_parallel: PositiveInt = at(f"{ROLLOUT}.data_parallel_size")
    rollout_gpus: NonNegativeInt = at(f"{ROLLOUT}.n_gpus_per_node")
    rollout_nodes: NonNegativeInt = at(f"{ROLLOUT}.nnodes")
    strategy: Literal["fsdp2", "fsdp"] = at(f"{ACTOR}.strategy")
    hybrid: bool = at("actor_rollout_ref.hybrid_engine")

    # lengths in tokens
    prompt: PositiveInt = at("data.max_prompt_length")
    response: PositiveInt = at("data.max_response_length")
    context: PositiveInt | None = at(f"{ROLLOUT}.max_model_len")
    batched_tokens: PositiveInt = at(f"{ROLLOUT}.max_num_batched_tokens")
    chunked_prefill: bool = at(f"{ROLLOUT}.enable_chunked_prefill")
    actor_tokens: PositiveInt = at(f"{ACTOR}.ppo_max_token_len_per_gpu")
    actor_packs: bool = at(f"{ACTOR}.use_dynamic_bsz")
    log_prob_tokens: PositiveInt = at(f"{ROLLOUT}.log_prob_max_token_len_per_gpu")
    log_prob_packs: bool = at(f"{ROLLOUT}.log_prob_use_dynamic_bsz")

    # model and optimizer
    lora_rank: NonNegativeInt = at(f"{MODEL}.lora_rank")
    lora_path: str | None = at(f"{MODEL}.lora_adapter_path")
    megatron_rank: int | None = at(f"{MODEL}.lora.rank")
    merges_lora: bool | None = at(f"{MODEL}.lora.merge")
    optimizer: Line = at(f"{OPTIM}.optimizer")
    optimizer_package: Line = at(f"{OPTIM}.optimizer_impl")
    lr_schedule: str | None = at(f"{OPTIM}.lr_scheduler_type")
    warmup_steps: OrMinusOne = at(f"{OPTIM}.lr_warmup_steps")
    warmup_ratio: Fraction = at(f"{OPTIM}.lr_warmup_steps_ratio")

    # loss, advantages and KL
    loss: Line = at(f"{ACTOR}.policy_loss.loss_mode")
    estimator: Line = at("algorithm.adv_estimator")
    beta: NonNegativeFloat = at("rpg.kl_coef")
    kl_scope: Literal[KL_SCOPES] = at("rpg.kl_scope")  # type: ignore[valid-type]
    loss_kl_scope: Literal[KL_SCOPES] | None = at(f"{ACTOR}.policy_loss.kl_scope")  # type: ignore[valid-type]
    kl_coef: NonNegativeFloat | None = at(f"{ACTOR}.policy_loss.kl_coef")
    clip_scope: Literal[CLIP_SCOPES] | None = at(f"{ACTOR}.policy_loss.clip_scope")  # type: ignore[valid-type]
    clip_branch: Literal[CLIP_BRANCHES] | None = at(f"{ACTOR}.policy_loss.clip_branch")  # type: ignore[valid-type]
    z_old: PositiveFloat | None = at(f"{ACTOR}.policy_loss.z_old")
    kl_loss: bool = at(f"{ACTOR}.use_kl_loss")
    kl_loss_coef: NonNegativeFloat = at(f"{ACTOR}.kl_loss_coef")
    kl_in_reward: bool = at("algorithm.use_kl_in_reward")
    kl_in_reward_coef: NonNegativeFloat = at("algorithm.kl_ctrl.kl_coef")

    # reference
    reference: Literal[REFERENCES] = at("rpg.reference.mode")  # type: ignore[valid-type]
    every_k: PositiveInt | None = at("rpg.reference.every_k")
    kl_target: PositiveFloat | None = at("rpg.reference.kl_target")
    ref_strategy: Literal["fsdp2", "fsdp"] = at(f"{REF}.strategy")
    ref_fsdp_size: int = at(f"{REF}.fsdp_config.fsdp_size")
    actor_fsdp_size: OrMinusOne = at(f"{ACTOR}.fsdp_config.fsdp_size")
    ref_micro_batch: PositiveInt | None = at(f"{REF}.log_prob_micro_batch_size_per_gpu")

    # schedule and pi_old
    schedule: Literal[SCHEDULES] = at("trainer.v1.trainer_mode")  # type: ignore[valid-type]
    pi_old: Literal[PI_OLD] | None = at("rpg.pi_old")  # type: ignore[valid-type]
    bypass: bool = at(f"{CORRECTION}.bypass_mode")
    weight: Literal["token", "sequence"] | None = at(f"{CORRECTION}.rollout_is")
    weight_threshold: PositiveFloat | Bounds | None = at(f"{CORRECTION}.rollout_is_threshold")
    rejection: Line | None = at(f"{CORRECTION}.rollout_rs")
    rejection_threshold: PositiveFloat | Thresholds | None = at(f"{CORRECTION}.rollout_rs_threshold")
    keeps_log_probs: bool = at(f"{ROLLOUT}.calculate_log_probs")
    ahead_colocated: NonNegativeFloat = at("trainer.v1.colocate_async.num_warmup_batches")
    ahead_separate: NonNegativeFloat = at("trainer.v1.separate_async.num_warmup_batches")
    oldest: PositiveInt | None = at(f"{SAMPLER}_threshold")
    too_old: Literal["drop", "wait"] = at(f"{SAMPLER}_strategy")
    engine: Line = at(f"{ROLLOUT}.checkpoint_engine.backend")
    engine_module: Line | None = at(f"{ROLLOUT}.checkpoint_engine.custom_backend_module")
    external_lib: Line | None = at(f"{MODEL}.external_lib")

    # reward and dynamic sampling
    reward: FilePath | None = at(f"{FUNCTION}.path")
    manager: Line = at("reward.reward_manager.name")
    longest: PositiveInt = at("reward.reward_kwargs.max_resp_len")
    overlong: bool | None = at(f"{OVERLONG}.enable")
    overlong_len: PositiveInt | None = at(f"{OVERLONG}.len")
    overlong_factor: NonNegativeFloat | None = at(f"{OVERLONG}.penalty_factor")
    overlong_log: bool | None = at(f"{OVERLONG}.log")
    filters: bool = at("algorithm.filter_groups.enable")
    filter_metric: Line | None = at("algorithm.filter_groups.metric")

    # validation and resumption
    resume_mode: Literal["auto", "disable", "resume_path"] = at("trainer.resume_mode")
    resume_path: FilePath | None = at("trainer.resume_from_path")
    saves_async: bool | None = at(f"{ACTOR}.checkpoint.async_save")
    hdfs_directory: str | None = at("trainer.default_hdfs_dir")
    val_only: bool = at("trainer.val_only")
    val_before_train: bool = at("trainer.val_before_train")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Return the view of nested dictionaries whose types are valid (types.py)."""
        return cls(**{name: value_at(config, key) for name, key in KEYS.items()})

    def shown(self, name: str) -> str:
        """Return `key=value` of a field, as in an override."""
        return f"{KEYS[name]}={shown(getattr(self, name))}"

    def wrong(self, name: str, wrong: str, remedy: str = "", level: Level = "error") -> Diagnostic:
        """Return the diagnostic of a field."""
        return Diagnostic(KEYS[name], getattr(self, name), wrong, remedy, level)


KEYS: dict[str, str] = {setting.name: setting.metadata["key"] for setting in fields(Settings)}


def value_at(config: Any, key: str, default: Any = None) -> Any:
    """Return the value at a dotted key of nested dictionaries, or `default` if there is none."""
    for name in key.split("."):
        if not isinstance(config, dict) or name not in config:
            return default
        config = config[name]
    return config


def _each(kind: Any, *keys: str) -> dict[str, Any]:
    return dict.fromkeys(keys, kind)


RANGES: dict[str, TypeAdapter[Any]] = {
    key: TypeAdapter(kind, config=STRICT)
    for key, kind in {
        **{KEYS[name]: hint for name, hint in get_type_hints(Settings, include_extras=True).items()},
        # rpg.*; rpg_trainer.yaml explains each key
        **_each(Line | None, "rpg.script"),
        **_each(dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str | int | float | bool], "rpg.env"),
        **_each(FilePath, "rpg.data_dir"),
        **_each(list[FilePath], "rpg.external_lib"),
        **_each(Literal[DIVERGENCES], "rpg.divergence"),
        **_each(Annotated[float, Field(ge=0, lt=1)], "rpg.reference.kl_ema"),
        **_each(list[Line], "rpg.preload.early", "rpg.preload.late"),
        **_each(dict[str, PositiveInt], "rpg.max_num_seqs"),
        **_each(PositiveInt, "rpg.nonfinite_limit"),
        **_each(PositiveFloat, "rpg.poll_interval", "rpg.gpu_memory"),
        **_each(RhoBound, "rpg.rho_bound"),
        **_each(RhoBound | None, f"{ACTOR}.policy_loss.rho_bound"),
        **_each(PositiveFloat | None, "rpg.reward_limit", "rpg.stall_limit", "rpg.time_limit"),
        **_each(Fraction, "rpg.left_out_limit"),
        **_each(bool, "rpg.resume_changed"),
        **_each(Literal["full", "progress"], "rpg.console"),
        # verl's: what the launcher and the checks read
        **_each(RunName, "trainer.experiment_name"),
        **_each(FilePath, "trainer.default_local_dir", f"{MODEL}.path"),
        **_each(FilePath | None, "trainer.validation_data_dir", f"{MODEL}.tokenizer_path"),
        **_each(Files, "data.train_files", "data.val_files"),
        **_each(Line, "data.prompt_key", f"{FUNCTION}.name"),
        **_each(PositiveInt, BUCKET, "trainer.total_epochs", f"{ROLLOUT}.val_kwargs.n", f"{ACTOR}.ppo_epochs",
                f"{ROLLOUT}.max_num_seqs", f"{REF}.log_prob_max_token_len_per_gpu"),
        **_each(PositiveInt | None, "trainer.total_training_steps", "trainer.max_actor_ckpt_to_keep",
                f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"),
        **_each(NonNegativeInt | None, "data.seed", f"{RAY}.num_gpus"),
        **_each(OrMinusOne, "trainer.test_freq", "trainer.save_freq"),
        **_each(Port, f"{ROLLOUT}.prometheus.port"),
        **_each(Port | None, f"{RAY}.dashboard_port"),
        **_each(Literal[True], "trainer.use_v1"),  # the recipe always runs verl's V1 trainer
        **_each(Literal["cuda", "cpu", "npu"], "trainer.device"),
        # verl's: what verl would ignore, or find only after Ray has started
        **_each(Logger | Annotated[list[Logger], Field(min_length=1)], "trainer.logger"),
        **_each(NonNegativeInt, "algorithm.filter_groups.max_num_gen_batches",
                f"{OPTIM}.override_optimizer_config.warmup_steps"),
        **_each(NonNegativeFloat, f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high",
                f"{ACTOR}.entropy_coeff", f"{OPTIM}.lr", f"{OPTIM}.weight_decay", f"{ROLLOUT}.val_kwargs.temperature"),
        **_each(PositiveFloat, f"{ACTOR}.grad_clip", f"{ROLLOUT}.temperature"),
        **_each(Annotated[float, Field(gt=1)], f"{ACTOR}.clip_ratio_c"),
        **_each(PositiveInt, "reward.num_workers", f"{ROLLOUT}.agent.num_workers",
                "transfer_queue.backend.SimpleStorage.num_data_storage_units"),
        **_each(OrMinusOne, f"{ROLLOUT}.top_k", f"{ROLLOUT}.val_kwargs.top_k"),
        **_each(Literal["kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "kl+", "k1+", "abs+", "mse+", "k2+",
                        "low_var_kl+", "k3+"], f"{ACTOR}.kl_loss_type"),
        **_each(Share, f"{ROLLOUT}.top_p", f"{ROLLOUT}.val_kwargs.top_p", f"{ROLLOUT}.gpu_memory_utilization"),
        **_each(Literal["left", "right", "middle", "error"], "data.truncation"),
        **_each(Literal["fp32", "bf16", "fp16", "float32", "bfloat16", "float16"],
                f"{ACTOR}.fsdp_config.model_dtype", f"{REF}.fsdp_config.model_dtype"),
        **_each(Literal["vllm", "sglang", "trtllm"], f"{ROLLOUT}.name"),
        **_each(Literal["sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "eager"],
                f"{MODEL}.override_config.attn_implementation"),
    }.items()
}  # fmt: skip
