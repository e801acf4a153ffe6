"""Types and ranges of single settings, without importing verl.

Types of verl's settings come from verl's default configuration. RANGES has the types of ours (`rpg.*`) and ranges that
verl would ignore, or check only after Ray has started. pydantic is strict: "300" is not a number, true is not 1.
"""

import difflib
import importlib.util
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from rpg.checks.check import ABSENT, Diagnostic, Run, check
from rpg.names import CLIP_BRANCHES, CLIP_SCOPES, DIVERGENCES, PI_OLD, REFERENCES

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
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
Port = Annotated[int, Field(ge=1, le=65535)]
Dtype = Literal["fp32", "bf16", "fp16", "float32", "bfloat16", "float16"]
KL = Literal["kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3",
             "kl+", "k1+", "abs+", "mse+", "k2+", "low_var_kl+", "k3+"]  # fmt: skip
Logger = Literal["console", "file", "wandb", "tensorboard", "mlflow", "swanlab", "clearml", "trackio", "vemlp_wandb",
                 "rl_insight"]  # fmt: skip
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def _each(kind: Any, *keys: str) -> dict[str, TypeAdapter[Any]]:
    return dict.fromkeys(keys, TypeAdapter(kind, config=STRICT))


WORKERS = f"{ROLLOUT}.agent.num_workers"
BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
CORRECTION = "algorithm.rollout_correction"
SAMPLER = "trainer.v1.sampler.max_off_policy"
RAY = "ray_kwargs.ray_init"

RANGES: dict[str, TypeAdapter[Any]] = {
    # rpg.*; rpg_trainer.yaml explains each key
    **_each(Line | None, "rpg.script"),
    **_each(dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str | int | float | bool], "rpg.env"),
    **_each(FilePath, "rpg.data_dir"),
    **_each(Literal[DIVERGENCES], "rpg.divergence"),
    **_each(Literal[*PI_OLD, None], "rpg.pi_old"),
    **_each(Literal[REFERENCES], "rpg.reference.mode"),
    **_each(Annotated[float, Field(ge=0, lt=1)], "rpg.reference.kl_ema"),
    **_each(list[Line], "rpg.preload.early", "rpg.preload.late"),
    **_each(dict[str, PositiveInt], "rpg.max_num_seqs"),
    **_each(PositiveInt, "rpg.nonfinite_limit"),
    **_each(PositiveInt | None, "rpg.reference.every_k"),
    **_each(PositiveFloat, "rpg.poll_interval", "rpg.gpu_memory"),
    **_each(PositiveFloat | None, "rpg.reference.kl_target", "rpg.reward_limit", "rpg.stall_limit", "rpg.time_limit"),
    **_each(NonNegativeFloat, "rpg.kl_coef"),
    **_each(Fraction, "rpg.left_out_limit"),
    **_each(bool, "rpg.resume_changed"),
    **_each(Literal["full", "progress"], "rpg.console"),
    # verl's
    **_each(RunName, "trainer.experiment_name"),
    **_each(
        Line, "trainer.project_name", "data.prompt_key", "algorithm.adv_estimator", "reward.reward_manager.name",
        "reward.custom_reward_function.name", f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.optim.optimizer",
        f"{ACTOR}.optim.optimizer_impl", f"{ROLLOUT}.checkpoint_engine.backend",
    ),
    **_each(
        Line | None, f"{MODEL}.external_lib", f"{ROLLOUT}.checkpoint_engine.custom_backend_module",
        f"{CORRECTION}.rollout_rs", "algorithm.filter_groups.metric",
    ),
    **_each(FilePath, "trainer.default_local_dir", f"{MODEL}.path"),
    **_each(
        FilePath | None, "trainer.validation_data_dir", "trainer.resume_from_path", f"{MODEL}.tokenizer_path",
        "reward.custom_reward_function.path",
    ),
    **_each(Files, "data.train_files", "data.val_files"),
    **_each(
        PositiveInt, "trainer.nnodes", "trainer.n_gpus_per_node", "trainer.total_epochs",
        "trainer.v1.separate_async.parameter_sync_step", "data.max_prompt_length", "data.max_response_length",
        "data.train_batch_size", "reward.num_workers", "reward.reward_kwargs.max_resp_len", f"{OVERLONG}.len",
        f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.ppo_epochs", f"{ACTOR}.ppo_max_token_len_per_gpu",
        f"{ACTOR}.ulysses_sequence_parallel_size", f"{REF}.log_prob_max_token_len_per_gpu", f"{ROLLOUT}.n",
        f"{ROLLOUT}.val_kwargs.n", f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.data_parallel_size",
        f"{ROLLOUT}.max_num_seqs", f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        WORKERS, BUCKET, "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    ),
    **_each(
        PositiveInt | None, "trainer.total_training_steps", "trainer.max_actor_ckpt_to_keep", f"{SAMPLER}_threshold",
        "data.gen_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ROLLOUT}.max_model_len",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", f"{REF}.log_prob_micro_batch_size_per_gpu",
    ),
    **_each(
        NonNegativeInt, "data.dataloader_num_workers", "algorithm.filter_groups.max_num_gen_batches",
        f"{MODEL}.lora_rank", f"{ROLLOUT}.nnodes", f"{ROLLOUT}.n_gpus_per_node",
        f"{ACTOR}.optim.override_optimizer_config.warmup_steps",
    ),
    **_each(NonNegativeInt | None, "data.seed", f"{RAY}.num_gpus"),
    **_each(
        OrMinusOne, "trainer.test_freq", "trainer.save_freq", f"{ACTOR}.optim.lr_warmup_steps",
        f"{ACTOR}.fsdp_config.fsdp_size", f"{ROLLOUT}.top_k", f"{ROLLOUT}.val_kwargs.top_k",
    ),
    **_each(
        NonNegativeFloat, "trainer.v1.colocate_async.num_warmup_batches",
        "trainer.v1.separate_async.num_warmup_batches", "algorithm.kl_ctrl.kl_coef", f"{OVERLONG}.penalty_factor",
        f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high", f"{ACTOR}.entropy_coeff",
        f"{ACTOR}.kl_loss_coef", f"{ACTOR}.policy_loss.kl_coef", f"{ACTOR}.optim.lr", f"{ACTOR}.optim.weight_decay",
        f"{ROLLOUT}.val_kwargs.temperature",
    ),
    **_each(PositiveFloat, f"{ACTOR}.grad_clip", f"{ACTOR}.policy_loss.z_old", f"{ROLLOUT}.temperature"),
    **_each(PositiveFloat | None, f"{RAY}.num_cpus"),
    **_each(Annotated[float, Field(gt=1)], f"{ACTOR}.clip_ratio_c"),
    **_each(Share, f"{ROLLOUT}.top_p", f"{ROLLOUT}.val_kwargs.top_p", f"{ROLLOUT}.gpu_memory_utilization"),
    **_each(Fraction, f"{ACTOR}.optim.lr_warmup_steps_ratio"),
    **_each(Port, f"{ROLLOUT}.prometheus.port"),
    **_each(Port | None, f"{RAY}.dashboard_port"),
    **_each(bool, f"{OVERLONG}.enable", f"{OVERLONG}.log"),
    **_each(Logger | Annotated[list[Logger], Field(min_length=1)], "trainer.logger"),
    **_each(Literal[True], "trainer.use_v1"),  # the recipe always runs verl's V1 trainer
    **_each(Literal["cuda", "cpu", "npu"], "trainer.device"),
    **_each(Literal["auto", "disable", "resume_path"], "trainer.resume_mode"),
    **_each(Literal[SCHEDULES], "trainer.v1.trainer_mode"),
    **_each(Literal["drop", "wait"], f"{SAMPLER}_strategy"),
    **_each(Literal["left", "right", "middle", "error"], "data.truncation"),
    **_each(Literal["token", "sequence"] | None, f"{CORRECTION}.rollout_is"),
    **_each(PositiveFloat | Bounds | None, f"{CORRECTION}.rollout_is_threshold"),
    **_each(PositiveFloat | Thresholds | None, f"{CORRECTION}.rollout_rs_threshold"),
    **_each(Literal["fsdp2", "fsdp"], f"{ACTOR}.strategy"),
    **_each(KL, f"{ACTOR}.kl_loss_type"),
    **_each(Literal[CLIP_SCOPES], f"{ACTOR}.policy_loss.clip_scope"),
    **_each(Literal[CLIP_BRANCHES], f"{ACTOR}.policy_loss.clip_branch"),
    **_each(
        Dtype, f"{ACTOR}.fsdp_config.model_dtype", f"{REF}.fsdp_config.model_dtype",
        *(f"{ACTOR}.fsdp_config.mixed_precision.{name}_dtype" for name in ("param", "reduce", "buffer")),
    ),
    **_each(Dtype | Literal["auto", "half", "float"], f"{ROLLOUT}.dtype"),
    **_each(Literal["vllm", "sglang", "trtllm"], f"{ROLLOUT}.name"),
    **_each(
        Literal["sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "eager"],
        f"{MODEL}.override_config.attn_implementation",
    ),
    **_each(
        Literal["uni", "mp", "ray", "external_launcher"],
        f"{ROLLOUT}.engine_kwargs.vllm.distributed_executor_backend",
    ),
}  # fmt: skip

# keys that verl reads although neither its default configuration nor a dataclass has them
ALSO_READ = (
    "trainer.v1.sampler.sync_refill_failed_groups",
    "trainer.v1.sampler.custom_sampler", "reward.custom_reward_function.reward_kwargs",
    "reward.reward_kwargs", "reward.timeout",
    f"{ROLLOUT}.moe_load_balance_metrics_interval", f"{ROLLOUT}.enable_sleep_mode", f"{MODEL}.custom_chat_template",
)  # fmt: skip


@cache
def verl_defaults() -> dict[str, Any]:
    """Return verl's default configuration, as verl ships it, with ??? for our settings.

    Interpolations are text. Does not import verl.
    """
    from omegaconf import OmegaConf

    spec = importlib.util.find_spec("verl")
    assert spec is not None
    assert spec.submodule_search_locations
    made = OmegaConf.load(Path(spec.submodule_search_locations[0]) / "trainer/config/_generated_ppo_trainer.yaml")
    for key in RANGES:
        if key.startswith("rpg."):
            OmegaConf.update(made, key, "???", force_add=True)
    # the generated file lacks the key that chose the groups
    return {"model_engine": "dp", **OmegaConf.to_container(made)}  # type: ignore[dict-item]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?" for the nearest known name, or ""."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else ""


def faults(adapter: TypeAdapter[Any], key: str, value: Any) -> Iterator[Diagnostic]:
    """Yield pydantic's errors for the value of a key."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        messages = (
            each["msg"].removeprefix("Value error, ").replace("Input should", "must", 1) for each in error.errors()
        )
        yield Diagnostic(key, repr(value) if isinstance(value, str) else value, " or ".join(dict.fromkeys(messages)))


@check("types and ranges", "every setting is read by verl or the plugin, has the type of its default and is in range")
def values(run: Run) -> Iterator[Diagnostic]:
    """Checks types, ranges, missing keys and keys that nothing reads; verl_validation.py checks the rest."""
    for section in SECTIONS:
        held = run.get(section, ABSENT)
        if not isinstance(held, dict) and held is not None and held is not ABSENT:
            yield _no_mapping(section, held)
    for key, adapter in RANGES.items():
        if (held := run.get(key, ABSENT)) is not ABSENT:
            yield from faults(adapter, key, held)
    yield from _section("", run.config, verl_defaults())


def _section(section: str, held: dict[str, Any], defaults: dict[str, Any]) -> Iterator[Diagnostic]:
    """Compare a section with verl's; one with a _target_ may have more keys, and null if its dataclass allows it."""
    dataclass = "_target_" in defaults
    for name, default in defaults.items():
        if name not in held and default is not None:
            key = f"{section}.{name}".lstrip(".")
            yield Diagnostic(key, ABSENT, "is missing", f"remove '~{key}' from the overrides")
    for name, value in held.items():
        key = f"{section}.{name}".lstrip(".")
        default = defaults.get(name, ABSENT)
        if default is ABSENT:
            if not dataclass and not is_read(key):
                yield Diagnostic(key, value, "no such setting", did_you_mean(name, defaults))
        elif isinstance(default, dict) and default and isinstance(value, dict):
            yield from _section(key, value, default)
        elif isinstance(default, dict) and default and value is None:
            yield _no_mapping(key, value)
        elif key in RANGES or key in SECTIONS or (value is None and dataclass) or _says_no_type(default):
            continue
        else:
            yield from faults(_like(type(default), dataclass and default != {}), key, value)


def _says_no_type(default: Any) -> bool:
    """Return whether a default has no type: null, a required key, or an interpolation of another key."""
    return default in (None, "???") or (isinstance(default, str) and "${" in default)


def _no_mapping(section: str, held: Any) -> Diagnostic:
    return Diagnostic(section, held, "must be a mapping", f"set its keys one by one, as {section}.KEY=VALUE")


@cache
def _like(kind: type, dataclass: bool) -> TypeAdapter[Any]:
    """Return the type of a default; an integer default of a dataclass may also be a float."""
    return TypeAdapter({int: float if dataclass else int, str: str | None, dict: dict | None}.get(kind, kind),
                       config=STRICT)  # fmt: skip


SECTIONS = sorted({key.rsplit(".", depth)[0] for key in RANGES for depth in range(1, key.count(".") + 1)})


def is_read(key: str) -> bool:
    """Return whether a key without a default in verl is read."""
    return key in ALSO_READ or key.startswith(f"{RAY}.")
