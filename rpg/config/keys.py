"""A row for every key of a run's configuration that this package knows: name, type and range, role, meaning.

`Settings` is the table. A field's annotation is the key's type and range (pydantic, strict: "300" is not a number, true
is not 1; Verl: the type of verl's default), `at` has the rest. What defines a training, may change on a resume, tells
runs apart, is taken over by an evaluation or changes what a number measures is read from here and listed nowhere else.
A key of verl's without a row has the role "defines".

Over 300 lines because there are many keys.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
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

from rpg.diagnostics import ABSENT, Diagnostic, Level, shown
from rpg.dotted import value_at
from rpg.names import (
    ACCURACY,
    BEST,
    CLIP_BRANCHES,
    CLIP_SCOPES,
    CLIPPED_TOKENS,
    DIVERGENCES,
    EFFECTIVE_SAMPLE_SIZE,
    ENTROPY,
    KL_SCOPES,
    PI_OLD,
    REFERENCES,
    RESPONSE_LENGTH,
    TRAINING_REWARD,
)

# What a key is for, and so what may change when a run resumes (all but "defines") and what tells experiments apart.
#   defines: what is trained; in the fingerprint      input: files and models, which the fingerprint knows by content
#   length: how long the run is                       look: how it is validated
#   speed: how fast; the update is the same           saving: checkpoints and limits
#   output: names, places and display
Role = Literal["defines", "input", "length", "look", "speed", "saving", "output"]
DISTINGUISHING = ("defines", "input", "length", "look")

LONGEST_NAME, LONGEST_PATH = 255, 2000  # bytes; Linux allows 4095, and file names are appended


def _one_line(text: str) -> str:
    if not text.strip() or re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError("must be one line of text, and not empty")
    return text


def _fits_a_file_system(path: str) -> str:
    if any(len(name.encode()) > LONGEST_NAME for name in path.split("/")) or len(path.encode()) > LONGEST_PATH:
        raise ValueError(f"longer than a file system allows ({LONGEST_NAME} bytes a name, {LONGEST_PATH} in all)")
    return path


def _one_directory(name: str) -> str:
    if "/" in name or name in (".", ".."):
        raise ValueError("names one directory, so it must not be . or .. or contain a /")
    return name


Verl = Any  # the type of verl's default
Line = Annotated[str, AfterValidator(_one_line)]
FilePath = Annotated[Line, AfterValidator(_fits_a_file_system)]
RunName = Annotated[FilePath, AfterValidator(_one_directory)]
Files = FilePath | Annotated[list[FilePath], Field(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
OrMinusOne = Annotated[int, Field(ge=-1)]
AboveOne = Annotated[float, Field(gt=1)]
Bounds = Annotated[str, Field(pattern=r"^[\d.e-]+_[\d.e-]+$")]  # LOWER_UPPER
Thresholds = Annotated[str, Field(pattern=r"^[\d.e+\-_, ]+$")]  # one per criterion
RhoBound = Annotated[float, Field(gt=0, le=20)]  # exp(20 + 20), with a token's own rho, is far from overflow
Port = Annotated[int, Field(ge=1, le=65535)]
Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str | int | float | bool]
Logger = Literal["console", "file", "wandb", "tensorboard", "mlflow", "swanlab", "clearml", "trackio", "vemlp_wandb",
                 "rl_insight"]  # fmt: skip
Loggers = Logger | Annotated[list[Logger], Field(min_length=1)]
KLKind = Literal["kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "kl+", "k1+", "abs+", "mse+", "k2+",
                 "low_var_kl+", "k3+"]  # fmt: skip
DType = Literal["fp32", "bf16", "fp16", "float32", "bfloat16", "float16"]
Attention = Literal["sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "eager"]
Schedule = Literal["sync", "colocate_async", "separate_async"]
SEPARATE: Schedule = "separate_async"
STRICT = ConfigDict(strict=True, allow_inf_nan=False)

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
LOSS = f"{ACTOR}.policy_loss"
OPTIM = f"{ACTOR}.optim"
FUNCTION = "reward.custom_reward_function"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
CORRECTION = "algorithm.rollout_correction"
RAY = "ray_kwargs.ray_init"
PROMPTS = (ACCURACY, TRAINING_REWARD)  # numbers that depend on prompt and sampling


@dataclass(frozen=True)
class Key:
    """A row.

    Attributes:
        key: dotted; a section's row is also that of the keys below it which have none.
        name: the field of Settings.
        kind: type and range; Verl for the type of verl's default.
        role: see Role.
        measures: numbers of rpg.names whose meaning depends on it; results compare them only if it is equal.
        named: its value under a launch script's name that does not mention it; another value contradicts the name.
            ABSENT: no name says anything about it.
        evaluation: whether an evaluation takes it from the run although its role is neither "defines" nor "input".
        opens: whether verl opens it as a path: written without ~ and without a / at its end.
        code: whether it is a file of the user's that decides what is trained, known by its content.
        shards: "model" or "optimizer" if a checkpoint's files of it load only with the value that saved them.
        switch: key of the switch without which the section has no effect.
    """

    key: str
    name: str = ""
    kind: Any = Verl
    role: Role = "defines"
    measures: tuple[str, ...] = ()
    named: Any = ABSENT
    evaluation: bool = False
    opens: bool = False
    code: bool = False
    shards: Literal["model", "optimizer", ""] = ""
    switch: str = ""


def at(key: str, role: Role = "defines", **row: Any) -> Any:
    """Declare a field of Settings with its row; arguments as the attributes of Key."""
    return field(metadata={"row": Key(key, role=role, **row)})


@dataclass(frozen=True)
class Settings:
    """The rows, and the typed view of a resolved configuration: a key that the configuration lacks is None."""

    # batches and parallelism
    batch: PositiveInt = at("data.train_batch_size")
    mini_batch: PositiveInt = at(f"{ACTOR}.ppo_mini_batch_size")
    micro_batch: PositiveInt | None = at(f"{ACTOR}.ppo_micro_batch_size_per_gpu", "speed")
    gen_batch: PositiveInt | None = at("data.gen_batch_size", "speed")
    n: PositiveInt = at(f"{ROLLOUT}.n")
    ppo_epochs: PositiveInt = at(f"{ACTOR}.ppo_epochs", named=1)
    gpus: PositiveInt = at("trainer.n_gpus_per_node", "speed", evaluation=True)
    nodes: PositiveInt = at("trainer.nnodes", "speed", evaluation=True)
    balances: Verl = at("trainer.balance_batch")
    over_samples: Verl = at(f"{ROLLOUT}.over_sample_rate")
    pf_ppo: Verl = at("algorithm.use_pf_ppo")
    samples_rollouts: Verl = at(f"{ROLLOUT}.do_sample")
    groups_prefixes: Verl = at(f"{ACTOR}.use_prefix_grouper")
    freezes_vision: Verl = at(f"{ACTOR}.freeze_vision_tower")
    critic_warmup: Verl = at("trainer.critic_warmup")
    response_cut: Verl = at(f"{ROLLOUT}.response_length")
    old_reward: Verl = at("custom_reward_function")
    old_reward_model: Verl = at("reward_model")
    old_sandbox: Verl = at("sandbox_fusion")
    sequence_parallel: PositiveInt = at(f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size")
    sequence_parallel_old: PositiveInt = at(f"{ACTOR}.ulysses_sequence_parallel_size")  # deprecated; counts if above 1
    tensor_parallel: PositiveInt = at(f"{ROLLOUT}.tensor_model_parallel_size")
    data_parallel: PositiveInt = at(f"{ROLLOUT}.data_parallel_size")
    rollout_gpus: NonNegativeInt = at(f"{ROLLOUT}.n_gpus_per_node", "speed", evaluation=True)
    rollout_nodes: NonNegativeInt = at(f"{ROLLOUT}.nnodes", "speed", evaluation=True)
    device: Literal["cuda", "cpu", "npu"] = at("trainer.device")
    strategy: Literal["fsdp2", "fsdp"] = at(f"{ACTOR}.strategy", shards="model")
    fsdp_size: OrMinusOne = at(f"{ACTOR}.fsdp_config.fsdp_size", shards="model")
    model_dtype: DType = at(f"{ACTOR}.fsdp_config.model_dtype")
    compute_dtype: DType | None = at(f"{ACTOR}.fsdp_config.mixed_precision.param_dtype")
    param_offload: Verl = at(f"{ACTOR}.fsdp_config.param_offload", "speed", evaluation=True)
    optimizer_offload: Verl = at(f"{ACTOR}.fsdp_config.optimizer_offload", "speed", evaluation=True)
    offload_policy: Verl = at(f"{ACTOR}.fsdp_config.offload_policy", "speed", evaluation=True)
    compiled: Verl = at(f"{ACTOR}.fsdp_config.use_torch_compile", "speed", evaluation=True)
    chunked_entropy: Verl = at(f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking", "speed", evaluation=True)
    checkpointing: Verl = at(f"{MODEL}.enable_gradient_checkpointing", "speed")
    fused: Verl = at(f"{MODEL}.use_fused_kernels", "speed", evaluation=True)
    actor_fused: Verl = at(f"{ACTOR}.use_fused_kernels", "speed")
    packs: Verl = at(f"{MODEL}.use_remove_padding")
    attention: Attention = at(f"{MODEL}.override_config.attn_implementation", "speed", evaluation=True)
    hybrid: bool = at("actor_rollout_ref.hybrid_engine")
    use_v1: Literal[True] = at("trainer.use_v1")  # the recipe always runs verl's V1 trainer

    # lengths in tokens
    prompt: PositiveInt = at("data.max_prompt_length", measures=PROMPTS)
    response: PositiveInt = at("data.max_response_length", measures=(*PROMPTS, RESPONSE_LENGTH), named=2048)
    context: PositiveInt | None = at(f"{ROLLOUT}.max_model_len", "speed", evaluation=True)
    prompt_cut: Verl = at(f"{ROLLOUT}.prompt_length")
    batched_tokens: PositiveInt = at(f"{ROLLOUT}.max_num_batched_tokens", "speed", evaluation=True)
    chunked_prefill: bool = at(f"{ROLLOUT}.enable_chunked_prefill")
    actor_tokens: PositiveInt = at(f"{ACTOR}.ppo_max_token_len_per_gpu", "speed")
    actor_packs: bool = at(f"{ACTOR}.use_dynamic_bsz")
    log_prob_tokens: PositiveInt = at(f"{ROLLOUT}.log_prob_max_token_len_per_gpu", "speed")
    log_prob_packs: bool = at(f"{ROLLOUT}.log_prob_use_dynamic_bsz")
    log_prob_micro_batch: PositiveInt | None = at(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", "speed")

    # model and optimizer
    model: FilePath = at(f"{MODEL}.path", "input", opens=True, named="Qwen/Qwen2.5-Math-7B")
    tokenizer: FilePath | None = at(f"{MODEL}.tokenizer_path", "input", opens=True)
    hf_config: Verl = at(f"{MODEL}.hf_config_path", "input", opens=True)
    chat_template: Verl = at(f"{MODEL}.custom_chat_template", measures=PROMPTS)
    trust_remote_code: Verl = at(f"{MODEL}.trust_remote_code")
    lora_rank: NonNegativeInt = at(f"{MODEL}.lora_rank", shards="model", named=0)
    lora_path: str | None = at(f"{MODEL}.lora_adapter_path")
    megatron_lora: Verl = at(f"{MODEL}.lora")
    megatron_rank: int | None = at(f"{MODEL}.lora.rank")
    merges_lora: bool | None = at(f"{MODEL}.lora.merge")
    optimizer: Line = at(f"{OPTIM}.optimizer", shards="optimizer", named="AdamW")
    optimizer_package: Line = at(f"{OPTIM}.optimizer_impl", shards="optimizer")
    lr: NonNegativeFloat = at(f"{OPTIM}.lr", named=1e-6)
    lr_schedule: str | None = at(f"{OPTIM}.lr_scheduler_type")
    warmup_style: Verl = at(f"{OPTIM}.warmup_style")
    warmup_steps: OrMinusOne = at(f"{OPTIM}.lr_warmup_steps")
    warmup_ratio: Fraction = at(f"{OPTIM}.lr_warmup_steps_ratio")
    optimizer_warmup: NonNegativeInt = at(f"{OPTIM}.override_optimizer_config.warmup_steps")
    optimizer_steps: Verl = at(f"{OPTIM}.total_training_steps", "length")
    weight_decay: NonNegativeFloat = at(f"{OPTIM}.weight_decay")
    grad_clip: PositiveFloat = at(f"{ACTOR}.grad_clip")
    engine_grad_clip: PositiveFloat = at(f"{OPTIM}.clip_grad")  # the engine reads this one, which follows grad_clip
    nonfinite_limit: PositiveInt = at("rpg.nonfinite_limit", "saving")

    # loss, advantages and KL
    loss: Line = at(f"{LOSS}.loss_mode", named="vanilla")
    loss_config: Verl = at(f"{LOSS}._target_", named="verl.workers.config.PolicyLossConfig")
    estimator: Line = at("algorithm.adv_estimator", named="gae")
    gamma: Verl = at("algorithm.gamma", named=1.0)
    lam: Verl = at("algorithm.lam", named=1.0)
    divergence: Literal[DIVERGENCES] = at("rpg.divergence")  # type: ignore[valid-type]
    beta: NonNegativeFloat = at("rpg.kl_coef")
    kl_scope: Literal[KL_SCOPES] = at("rpg.kl_scope")  # type: ignore[valid-type]
    rho_bound: RhoBound = at("rpg.rho_bound")
    kl_coef: NonNegativeFloat | None = at(f"{LOSS}.kl_coef", named=None)
    loss_kl_scope: Literal[KL_SCOPES] | None = at(f"{LOSS}.kl_scope", named=KL_SCOPES[0])  # type: ignore[valid-type]
    loss_rho_bound: RhoBound | None = at(f"{LOSS}.rho_bound")
    clip_scope: Literal[CLIP_SCOPES] | None = at(f"{LOSS}.clip_scope", named=CLIP_SCOPES[0])  # type: ignore[valid-type]
    clip_branch: Literal[CLIP_BRANCHES] | None = at(f"{LOSS}.clip_branch", named=CLIP_BRANCHES[0])  # type: ignore[valid-type]
    z_old: PositiveFloat | None = at(f"{LOSS}.z_old", named=1.0)
    clip: NonNegativeFloat = at(f"{ACTOR}.clip_ratio")
    clip_low: NonNegativeFloat | None = at(f"{ACTOR}.clip_ratio_low", named=0.2)
    clip_high: NonNegativeFloat | None = at(f"{ACTOR}.clip_ratio_high", named=0.28)
    clip_c: AboveOne = at(f"{ACTOR}.clip_ratio_c", named=10.0)
    tau_pos: Verl = at(f"{ACTOR}.tau_pos", named=1.0)
    tau_neg: Verl = at(f"{ACTOR}.tau_neg", named=1.05)
    aggregation: Verl = at(f"{ACTOR}.loss_agg_mode", measures=(ENTROPY,), named="token-mean")
    loss_scale: Verl = at(f"{ACTOR}.loss_scale_factor", measures=(ENTROPY,), named=None)
    entropy_coef: NonNegativeFloat = at(f"{ACTOR}.entropy_coeff", named=0)
    divided: Verl = at("algorithm.norm_adv_by_std_in_grpo", named=True)
    kl_loss: bool = at(f"{ACTOR}.use_kl_loss", named=False)
    kl_loss_kind: KLKind = at(f"{ACTOR}.kl_loss_type", named="low_var_kl")
    kl_loss_coef: NonNegativeFloat = at(f"{ACTOR}.kl_loss_coef", named=0.001)
    kl_in_reward: bool = at("algorithm.use_kl_in_reward", named=False)
    kl_in_reward_kind: Verl = at("algorithm.kl_penalty", named="kl")
    kl_in_reward_control: Literal["fixed", "adaptive"] = at("algorithm.kl_ctrl.type")
    kl_in_reward_coef: NonNegativeFloat = at("algorithm.kl_ctrl.kl_coef", named=0.001)

    # reference
    reference: Literal[REFERENCES] = at("rpg.reference.mode", named="old")  # type: ignore[valid-type]
    every_k: PositiveInt | None = at("rpg.reference.every_k")
    kl_target: PositiveFloat | None = at("rpg.reference.kl_target")
    kl_ema: Decay = at("rpg.reference.kl_ema", named=0.9)
    ref_strategy: Literal["fsdp2", "fsdp"] = at(f"{REF}.strategy")
    ref_sequence_parallel: PositiveInt = at(f"{REF}.fsdp_config.ulysses_sequence_parallel_size")
    ref_sequence_parallel_old: PositiveInt = at(f"{REF}.ulysses_sequence_parallel_size")  # counts if above 1
    ref_fsdp_size: int = at(f"{REF}.fsdp_config.fsdp_size")
    ref_dtype: DType = at(f"{REF}.fsdp_config.model_dtype")
    ref_param_offload: Verl = at(f"{REF}.fsdp_config.param_offload", "speed", evaluation=True)
    ref_offload_policy: Verl = at(f"{REF}.fsdp_config.offload_policy", "speed", evaluation=True)
    ref_fused: Verl = at(f"{REF}.use_fused_kernels", "speed")
    ref_tokens: PositiveInt = at(f"{REF}.log_prob_max_token_len_per_gpu", "speed")
    ref_packs: Verl = at(f"{REF}.log_prob_use_dynamic_bsz", "speed")
    ref_micro_batch: PositiveInt | None = at(f"{REF}.log_prob_micro_batch_size_per_gpu", "speed")

    # schedule and pi_old
    schedule: Schedule = at("trainer.v1.trainer_mode", named="sync")
    pi_old: Literal[PI_OLD] | None = at("rpg.pi_old", "length", evaluation=True)  # type: ignore[valid-type]  # repeats other keys
    bypass: bool = at(f"{CORRECTION}.bypass_mode", named=False)
    bypass_loss: Verl = at(f"{CORRECTION}.loss_type")
    weight: Literal["token", "sequence"] | None = at(
        f"{CORRECTION}.rollout_is", measures=(EFFECTIVE_SAMPLE_SIZE,), named=None
    )
    weight_threshold: PositiveFloat | Bounds | None = at(f"{CORRECTION}.rollout_is_threshold", named=2.0)
    weight_mean_one: bool = at(f"{CORRECTION}.rollout_is_batch_normalize", named=False)
    rejection: Line | None = at(f"{CORRECTION}.rollout_rs")
    rejection_threshold: PositiveFloat | Thresholds | None = at(f"{CORRECTION}.rollout_rs_threshold")
    keeps_log_probs: bool = at(f"{ROLLOUT}.calculate_log_probs")
    ahead_colocated: NonNegativeFloat = at("trainer.v1.colocate_async.num_warmup_batches", named=0.0)
    ahead_separate: NonNegativeFloat = at("trainer.v1.separate_async.num_warmup_batches")
    oldest: PositiveInt | None = at("trainer.v1.sampler.max_off_policy_threshold")
    too_old: Literal["drop", "wait"] = at("trainer.v1.sampler.max_off_policy_strategy")
    sampler_class: Verl = at("trainer.v1.sampler.custom_sampler")
    refill_failed: Verl = at("trainer.v1.sampler.sync_refill_failed_groups")
    poll_interval: PositiveFloat = at("rpg.poll_interval", "speed")

    # sampling
    engine: Literal["vllm", "sglang", "trtllm"] = at(f"{ROLLOUT}.name")
    temperature: PositiveFloat = at(f"{ROLLOUT}.temperature", measures=(TRAINING_REWARD, ENTROPY, RESPONSE_LENGTH))
    top_p: Share = at(f"{ROLLOUT}.top_p", measures=(TRAINING_REWARD,))
    top_k: OrMinusOne = at(f"{ROLLOUT}.top_k", measures=(TRAINING_REWARD,))
    truncated_sampling: bool = at("rpg.truncated_sampling", "saving")
    repetition_penalty: Verl = at(f"{ROLLOUT}.repetition_penalty")
    log_probs_of: Verl = at(f"{ROLLOUT}.logprobs_mode")
    vllm_log_probs_of: Verl = at(f"{ROLLOUT}.engine_kwargs.vllm.logprobs_mode")  # wins over the former
    vllm_processors: Verl = at(f"{ROLLOUT}.engine_kwargs.vllm.logits_processors")
    sglang_sampling: Verl = at(f"{ROLLOUT}.engine_kwargs.sglang.preferred_sampling_params")
    rollout_dtype: Verl = at(f"{ROLLOUT}.dtype")
    rollout_seed: Verl = at(f"{ROLLOUT}.seed")
    max_num_seqs: PositiveInt = at(f"{ROLLOUT}.max_num_seqs", "speed", evaluation=True)
    seqs_by_model: dict[str, PositiveInt] = at("rpg.max_num_seqs", "saving")
    memory_share: Share = at(f"{ROLLOUT}.gpu_memory_utilization", "speed", evaluation=True)
    prefix_caching: Verl = at(f"{ROLLOUT}.enable_prefix_caching", "speed")
    frees_cache: Verl = at(f"{ROLLOUT}.free_cache_engine", "speed")
    sleeps: Verl = at(f"{ROLLOUT}.enable_sleep_mode")
    moe_metrics: Verl = at(f"{ROLLOUT}.moe_load_balance_metrics_interval")
    agent_workers: PositiveInt = at(f"{ROLLOUT}.agent.num_workers", "speed")
    agent_loops: Verl = at(f"{ROLLOUT}.agent.agent_loop_config_path", code=True)
    weight_transfer: Verl = at(f"{ROLLOUT}.checkpoint_engine", "speed")
    transfer_engine: Line = at(f"{ROLLOUT}.checkpoint_engine.backend", "speed", evaluation=True)
    transfer_module: Line | None = at(f"{ROLLOUT}.checkpoint_engine.custom_backend_module", "speed")
    bucket: PositiveInt = at(f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", "speed")
    external_lib: Line | None = at(f"{MODEL}.external_lib")
    libraries: list[FilePath] = at("rpg.external_lib", "input")

    # data
    train_files: Files = at("data.train_files", "input", opens=True, measures=(TRAINING_REWARD,))
    val_files: Files = at("data.val_files", "look", evaluation=True, opens=True, measures=(ACCURACY,))
    train_samples: Verl = at("data.train_max_samples")
    prompt_key: Line = at("data.prompt_key")
    truncation: Literal["left", "right", "middle", "error"] = at("data.truncation")
    template_kwargs: Verl = at("data.apply_chat_template_kwargs", measures=PROMPTS)
    filters_prompts: Verl = at("data.filter_overlong_prompts")
    filter_workers: Verl = at("data.filter_overlong_prompts_workers", "speed")
    data_seed: NonNegativeInt | None = at("data.seed")
    loader_seed: Verl = at(f"{ACTOR}.data_loader_seed")
    data_class: Verl = at("data.custom_cls.path", code=True)
    sampler: Verl = at("data.sampler.class_path", code=True)
    tools: Verl = at("data.tool_config_path", code=True)
    function_tools: Verl = at("data.function_tool_path", code=True)

    # reward and dynamic sampling
    reward: FilePath | None = at(f"{FUNCTION}.path")
    reward_function: Line = at(f"{FUNCTION}.name")
    reward_options: Verl = at(f"{FUNCTION}.reward_kwargs")
    judge: Verl = at(f"{FUNCTION}.reward_kwargs.judge", named="release")
    reward_file: Verl = at(f"{FUNCTION}.reward_kwargs.file")
    reward_file_function: Verl = at(f"{FUNCTION}.reward_kwargs.function")
    reward_limit: PositiveFloat | None = at("rpg.reward_limit", "saving", evaluation=True)
    reward_timeout: Verl = at("reward.timeout")
    reward_workers: PositiveInt = at("reward.num_workers", "speed")
    left_out_limit: Fraction = at("rpg.left_out_limit", "saving")
    manager: Line = at("reward.reward_manager.name", measures=(TRAINING_REWARD,))
    manager_source: Verl = at("reward.reward_manager.source")
    manager_file: Verl = at("reward.reward_manager.module.path", code=True)
    manager_options: Verl = at("reward.reward_kwargs")
    longest: PositiveInt = at("reward.reward_kwargs.max_resp_len")
    overlong: bool | None = at(f"{OVERLONG}.enable", measures=(TRAINING_REWARD,), named=True)
    overlong_len: PositiveInt | None = at(f"{OVERLONG}.len", measures=(TRAINING_REWARD,))
    overlong_factor: NonNegativeFloat | None = at(f"{OVERLONG}.penalty_factor", measures=(TRAINING_REWARD,))
    overlong_log: bool | None = at(f"{OVERLONG}.log")
    filters: bool = at(
        "algorithm.filter_groups.enable",
        measures=(ENTROPY, RESPONSE_LENGTH, CLIPPED_TOKENS, EFFECTIVE_SAMPLE_SIZE), named=True,
    )  # fmt: skip
    filter_metric: Line | None = at("algorithm.filter_groups.metric")
    gen_batches: NonNegativeInt = at("algorithm.filter_groups.max_num_gen_batches", "saving")

    # length, validation, resumption and saving
    steps: PositiveInt | None = at("trainer.total_training_steps", "length")
    epochs: PositiveInt = at("trainer.total_epochs", "length")
    val_only: bool = at("trainer.val_only", "length")
    val_before_train: bool = at("trainer.val_before_train", "look")
    test_freq: OrMinusOne = at("trainer.test_freq", "look", measures=(BEST,))
    val_batch: Verl = at("data.val_batch_size", "look")
    val_samples: Verl = at("data.val_max_samples", "look", evaluation=True, measures=(ACCURACY,))
    val_shuffle: Verl = at("data.validation_shuffle", "look")
    val_sampling: Verl = at(f"{ROLLOUT}.val_kwargs", "look", evaluation=True)
    val_n: PositiveInt = at(f"{ROLLOUT}.val_kwargs.n", "look", evaluation=True, measures=(ACCURACY,))
    val_do_sample: Verl = at(f"{ROLLOUT}.val_kwargs.do_sample", "look", evaluation=True, measures=(ACCURACY,))
    val_temperature: NonNegativeFloat = at(
        f"{ROLLOUT}.val_kwargs.temperature", "look", evaluation=True, measures=(ACCURACY,)
    )
    val_top_p: Share = at(f"{ROLLOUT}.val_kwargs.top_p", "look", evaluation=True, measures=(ACCURACY,))
    val_top_k: OrMinusOne = at(f"{ROLLOUT}.val_kwargs.top_k", "look", evaluation=True, measures=(ACCURACY,))
    resume_mode: Literal["auto", "disable", "resume_path"] = at("trainer.resume_mode", "saving")
    resume_path: FilePath | None = at("trainer.resume_from_path", "saving", opens=True)
    resume_changed: bool = at("rpg.resume_changed", "saving")
    save_freq: OrMinusOne = at("trainer.save_freq", "saving")
    kept: PositiveInt | None = at("trainer.max_actor_ckpt_to_keep", "saving")
    critic_kept: Verl = at("trainer.max_critic_ckpt_to_keep", "saving")
    esi_time: Verl = at("trainer.esi_redundant_time", "saving")
    deletes_loaded: Verl = at("trainer.del_local_ckpt_after_load", "saving")
    save_callback: Verl = at("trainer.checkpoint_callback_class", "saving")
    contents: Verl = at(f"{ACTOR}.checkpoint", "speed")
    save_contents: Verl = at(f"{ACTOR}.checkpoint.save_contents", "speed")
    load_contents: Verl = at(f"{ACTOR}.checkpoint.load_contents", "speed")
    saves_async: bool | None = at(f"{ACTOR}.checkpoint.async_save", "speed")
    stall_limit: PositiveFloat | None = at("rpg.stall_limit", "saving")
    time_limit: PositiveFloat | None = at("rpg.time_limit", "saving")

    # names, places and display
    script: Line | None = at("rpg.script", "output")
    run_name: RunName = at("trainer.experiment_name", "output", evaluation=True)
    project: Verl = at("trainer.project_name", "output")
    directory: FilePath = at("trainer.default_local_dir", "output")
    hdfs_directory: str | None = at("trainer.default_hdfs_dir", "output")
    data_dir: FilePath = at("rpg.data_dir", "output")
    samples_dir: FilePath | None = at("trainer.validation_data_dir", "output", opens=True)
    rollout_dir: FilePath | None = at("trainer.rollout_data_dir", "output", opens=True)
    loggers: Loggers = at("trainer.logger", "output", evaluation=True)
    console: Literal["full", "progress"] = at("rpg.console", "output")
    logged_samples: Verl = at("trainer.log_val_generations", "output")
    quiet_engine: Verl = at(f"{ROLLOUT}.disable_log_stats", "output")
    prometheus: Verl = at(f"{ROLLOUT}.prometheus", "output")
    prometheus_port: Port = at(f"{ROLLOUT}.prometheus.port", "output")
    trace: Verl = at(f"{ROLLOUT}.trace", "output")
    rollout_profiler: Verl = at(f"{ROLLOUT}.profiler", "output")
    actor_profiler: Verl = at(f"{ACTOR}.profiler", "output")
    ref_profiler: Verl = at(f"{REF}.profiler", "output")
    profiler: Verl = at("global_profiler", "output")

    # machine
    env: Variables = at("rpg.env", "speed", evaluation=True)
    gpu_memory: PositiveFloat = at("rpg.gpu_memory", "speed")
    preload: Verl = at("rpg.preload", "speed")
    preload_early: list[Line] = at("rpg.preload.early", "speed")
    preload_late: list[Line] = at("rpg.preload.late", "speed")
    ray_kwargs: Verl = at("ray_kwargs", "speed")
    ray: Verl = at(RAY, "speed")
    ray_address: Verl = at(f"{RAY}.address", "speed")
    ray_gpus: NonNegativeInt | None = at(f"{RAY}.num_gpus", "speed")
    ray_cpus: PositiveInt | None = at(f"{RAY}.num_cpus", "speed")
    dashboard_port: Port | None = at(f"{RAY}.dashboard_port", "speed")
    ray_env: Verl = at(f"{RAY}.runtime_env.env_vars", "speed")
    queue: Verl = at("transfer_queue", "speed")
    storage_units: PositiveInt = at("transfer_queue.backend.SimpleStorage.num_data_storage_units", "speed")
    register_timeout: Verl = at("trainer.ray_wait_register_center_timeout", "speed")
    nccl_timeout: Verl = at("actor_rollout_ref.nccl_timeout", "speed")

    # sections of verl that the recipe leaves off; verl repeats other settings in them
    critic: Verl = at("critic", switch="critic.enable")
    distillation: Verl = at("distillation", switch="distillation.enabled")
    reward_model: Verl = at("reward.reward_model", switch="reward.reward_model.enable")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Return the view of a resolved configuration; of valid types only if it is a RunConfig's."""
        return cls(**{name: value_at(config, row.key) for name, row in ROWS.items()})

    @property
    def devices(self) -> int:
        """Number of the trainer's GPUs on all nodes."""
        return self.gpus * self.nodes

    @property
    def rollout_devices(self) -> int:
        """Number of the GPUs of separate rollouts on all nodes."""
        return self.rollout_gpus * self.rollout_nodes if self.schedule == SEPARATE else 0

    @property
    def length(self) -> int:
        """Tokens of the longest prompt and response together."""
        return self.prompt + self.response

    @property
    def has_reference_model(self) -> bool:
        """Whether verl computes log-probs of a reference."""
        return self.reference != "old" or self.kl_loss or self.kl_in_reward

    def shown(self, name: str) -> str:
        """Return `key=value` of a field, as in an override."""
        return f"{KEYS[name]}={shown(getattr(self, name))}"

    def error(self, name: str, message: str, remedy: str = "") -> Diagnostic:
        """Return the diagnostic of a field whose value cannot work."""
        return self.finding(name, message, remedy, "error")

    def finding(self, name: str, message: str, remedy: str, level: Level) -> Diagnostic:
        """Return the diagnostic of a field."""
        return Diagnostic(KEYS[name], getattr(self, name), message, remedy, level)


_HINTS = get_type_hints(Settings, include_extras=True)
ROWS: dict[str, Key] = {
    item.name: replace(item.metadata["row"], name=item.name, kind=_HINTS[item.name]) for item in fields(Settings)
}
KEYS: dict[str, str] = {name: row.key for name, row in ROWS.items()}
KNOWN_AS = {  # names of other libraries (docs/plain_verl.md): the field of Settings
    "lr": "lr",
    "learning_rate": "lr",
    "beta": "beta",
    "epsilon": "clip_low",
    "epsilon_high": "clip_high",
    "delta": "clip_c",
    "steps": "steps",
    "max_steps": "steps",
    "epochs": "epochs",
    "num_train_epochs": "epochs",
    "num_generations": "n",
    "num_iterations": "ppo_epochs",
    "batch_size": "batch",
    "generation_batch_size": "batch",
    "max_completion_length": "response",
    "loss_type": "aggregation",
    "reward_funcs": "reward",
    "output_dir": "directory",
    "gpus": "gpus",
    "gpu": "gpu_memory",
}
BY_KEY: dict[str, Key] = {row.key: row for row in ROWS.values()}
RANGES: dict[str, TypeAdapter[Any]] = {
    row.key: TypeAdapter(row.kind, config=STRICT) for row in ROWS.values() if row.kind is not Verl
}


def row_of(key: str) -> Key:
    """Return the row of a dotted key or of the nearest section above it; one that defines the training without any."""
    parts = key.split(".")
    sections = (".".join(parts[:depth]) for depth in range(len(parts), 0, -1))
    return next((BY_KEY[section] for section in sections if section in BY_KEY), Key(key))


def by_name(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of any configuration, also an older run's, by the names of Settings; None for missing keys."""
    return {name: value_at(config, key) for name, key in KEYS.items()}
