"""Type and range of every key that the recipe sets or documents, one line each.

pydantic does the comparing, strictly: "300" is no number, 2.5 no whole one, true neither. What verl has besides is
compared with verl's own types and defaults (verl_own.py).

Over 300 lines, because it is a list, and one that is read as a whole.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from rpg.checks.finding import ABSENT, Finding, Run, check
from rpg.objectives.spec import CLIP_BRANCHES, CLIP_SCOPES, DIVERGENCE_NAMES
from rpg.verl_plugin.reference_settings import MODES

LONGEST_NAME, LONGEST_PATH = 255, 2000  # bytes; Linux takes 4095, and what the run writes lies below
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Rule:
    """What a key holds, as a type for pydantic and in words.

    Attributes:
        optional: whether verl works without the key, which is then left out of the configuration.
    """

    type: Any
    wanted: str
    note: str = ""
    optional: bool = False

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.type, config=STRICT)

    def accepts(self, value: Any) -> bool:
        """Whether a value is of the type."""
        try:
            self._adapter.validate_python(value)
        except ValidationError:
            return False
        return True


def _or_null(kind: Any, wanted: str, null: str, note: str, optional: bool) -> Rule:
    if null:
        return Rule(kind | None, f"{wanted}, or null ({null})", note, optional)
    return Rule(kind, wanted, note, optional)


def whole(low: int, note: str = "", *, null: str = "", optional: bool = False) -> Rule:
    """A whole number, at least low. null: what null means, where it is allowed."""
    return _or_null(Annotated[int, Field(ge=low)], f"a whole number, at least {low}", null, note, optional)


def number(
    note: str = "",
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    null: str = "",
    optional: bool = False,
) -> Rule:
    """A finite number between the bounds."""
    bounds = {"at least": least, "above": above, "at most": most, "below": below}
    words = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
    kind = Annotated[float, Field(ge=least, gt=above, le=most, lt=below, allow_inf_nan=False)]
    return _or_null(kind, f"a number, finite and {words}", null, note, optional)


def switch(note: str = "", *, optional: bool = False) -> Rule:
    """true or false."""
    return Rule(bool, "true or false", note, optional)


def text(note: str = "", *, null: str = "", optional: bool = False) -> Rule:
    """Text of one line, not empty."""
    kind = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f\s][^\x00-\x1f\x7f]*$")]
    return _or_null(kind, "text of one line", null, note, optional)


def _names_fit(path: str) -> str:
    if any(len(name.encode()) > LONGEST_NAME for name in path.split("/")) or len(path.encode()) > LONGEST_PATH:
        raise ValueError("longer than a file system allows")
    return path


def path(note: str = "", *, null: str = "", optional: bool = False) -> Rule:
    """Text that a file system can hold."""
    kind = Annotated[text().type, AfterValidator(_names_fit)]
    wanted = f"a path of one line, its names up to {LONGEST_NAME} bytes, itself up to {LONGEST_PATH}"
    return _or_null(kind, wanted, null, note, optional)


def one_of(*choices: str, note: str = "", null: str = "", optional: bool = False) -> Rule:
    """One of the words."""
    return _or_null(Literal[choices], f"one of {', '.join(choices)}", null, note, optional)


def port(*, null: str = "") -> Rule:
    """A port's number; with null also a key that verl does without."""
    return _or_null(Annotated[int, Field(ge=1, le=65535)], "a port, 1 to 65535", null, "", bool(null))


def _list(element: Rule, wanted: str, least: int, note: str = "", *, alone: bool = False) -> Rule:
    kind: Any = Annotated[list[element.type], Field(min_length=least)]
    return Rule(element.type | kind if alone else kind, wanted, note)


ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
DTYPES = ("fp32", "bf16", "fp16", "float32", "bfloat16", "float16")
KL_TYPES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
BACKENDS = ("console", "file", "wandb", "tensorboard", "mlflow", "swanlab", "clearml", "trackio", "vemlp_wandb",
            "rl_insight")  # fmt: skip
PAPER = "paper, Appendix H"
SCHEDULES = ("sync", "colocate_async", "separate_async")
PI_OLD = ("recomputed", "behavior", "decoupled")  # as in rpg.objectives.pi_old, which needs torch

SCHEMA: dict[str, Rule] = {
    # the run
    "trainer.project_name": text("quote a number: '\"1\"'"),
    "trainer.experiment_name": path("quote a number: '\"1\"'"),
    "trainer.default_local_dir": path("CKPTS_DIR sets the folder it lies in"),
    "trainer.validation_data_dir": path(null="<run>/validation", optional=True),
    "trainer.logger": _list(one_of(*BACKENDS), f"a list of {', '.join(BACKENDS)}, not empty", 1, alone=True),
    "trainer.nnodes": whole(1, "NNODES sets it"),
    "trainer.n_gpus_per_node": whole(1),
    "trainer.device": one_of("cuda", "cpu", "npu", note="profile=cpu sets it"),
    "trainer.total_epochs": whole(1),
    "trainer.total_training_steps": whole(1, f"400 in the {PAPER}", null="as many as total_epochs gives"),
    "trainer.use_v1": Rule(
        Literal[True], "true", "the recipe runs verl's V1 trainer whatever it says; leave it out", optional=True
    ),
    "trainer.val_before_train": switch(),
    "trainer.val_only": switch(),
    "trainer.test_freq": whole(-1, "-1: never"),
    "trainer.save_freq": whole(-1, "-1: never"),
    "trainer.max_actor_ckpt_to_keep": whole(1, null="all"),
    "trainer.resume_mode": one_of("auto", "disable", "resume_path"),
    "trainer.resume_from_path": path(null="none"),
    "trainer.balance_batch": switch(),
    "trainer.v1.trainer_mode": one_of(*SCHEDULES, note="the group schedule sets it"),
    "trainer.v1.colocate_async.num_warmup_batches": number("batches that rollouts are ahead", least=0),
    "trainer.v1.separate_async.num_warmup_batches": number("batches that rollouts are ahead", least=0),
    "trainer.v1.separate_async.parameter_sync_step": whole(1, "mini-batches between two updates of the rollouts"),
    "trainer.v1.sampler.max_off_policy_threshold": whole(1, "steps", null="any age"),
    "trainer.v1.sampler.max_off_policy_strategy": one_of("drop", "wait"),
    # what verl has no key for
    "rpg.script": text(null="no script"),
    "rpg.env": Rule(
        dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str | int | float | bool],
        "a mapping of names of environment variables to text, numbers or switches",
    ),
    "rpg.data_dir": path(),
    "rpg.divergence": one_of(*DIVERGENCE_NAMES),
    "rpg.kl_coef": number("1e-4 in the paper; 0 for no KL", least=0),
    "rpg.pi_old": one_of(*PI_OLD, note="the group pi_old sets it", null="verl's keys alone say it"),
    "rpg.reference.mode": one_of(*MODES),
    "rpg.reference.every_k": whole(1, "optimizer steps", null="not asked for"),
    "rpg.reference.kl_target": number("nats a token", above=0, null="not asked for"),
    "rpg.reference.kl_ema": number(least=0, below=1),
    "rpg.preload.early": _list(text(), "a list of modules", 0),
    "rpg.preload.late": _list(text(), "a list of modules", 0),
    "rpg.poll_interval": number("seconds", above=0),
    "rpg.nonfinite_limit": whole(1, "optimizer steps in a row"),
    "rpg.reward_limit": number("seconds a response", above=0, null="no limit"),
    "rpg.left_out_limit": number("share of a batch's responses", least=0, most=1),
    "rpg.stall_limit": number("seconds", above=0, null="no limit"),
    "rpg.time_limit": number("seconds", above=0, null="no limit"),
    "rpg.max_num_seqs": Rule(
        dict[str, Annotated[int, Field(ge=1)]], "a mapping of models to whole numbers, at least 1"
    ),
    "rpg.resume_changed": switch(),
    "rpg.console": one_of("full", "progress"),
    # data
    "data.train_files": _list(path(), "a parquet file or a list of them, not empty", 1, "TRAIN_FILE", alone=True),
    "data.val_files": _list(path(), "a parquet file or a list of them, not empty", 1, "TEST_FILE", alone=True),
    "data.prompt_key": text(),
    "data.max_prompt_length": whole(1, "tokens"),
    "data.max_response_length": whole(1, "tokens"),
    "data.train_batch_size": whole(1, f"problems of an iteration; 512 in the {PAPER}"),
    "data.gen_batch_size": whole(1, null="as train_batch_size", optional=True),
    "data.truncation": one_of("left", "right", "middle", "error"),
    "data.filter_overlong_prompts": switch(),
    "data.dataloader_num_workers": whole(0),
    "data.shuffle": switch(),
    "data.seed": whole(0, null="not seeded"),
    "data.apply_chat_template_kwargs": Rule(dict[str, Any], "a mapping", optional=True),
    # algorithm and reward
    "algorithm.adv_estimator": text(),
    "algorithm.use_kl_in_reward": switch(),
    "algorithm.kl_ctrl.kl_coef": number(least=0),
    "algorithm.rollout_correction.bypass_mode": switch("the group pi_old sets it"),
    "algorithm.rollout_correction.rollout_is": one_of("token", "sequence", null="no weights"),
    "algorithm.rollout_correction.rollout_is_threshold": Rule(
        number(above=0).type | Annotated[str, Field(pattern=r"^[\d.e-]+_[\d.e-]+$")] | None,
        "a number above 0, LOWER_UPPER or null",
        "the largest weight; of LOWER_UPPER what is outside weighs 0",
    ),
    "algorithm.rollout_correction.rollout_rs": text("criteria by which answers or tokens are dropped", null="none"),
    "algorithm.rollout_correction.rollout_rs_threshold": Rule(
        number(above=0).type | text().type | None,
        "a number above 0, text of one line (LOWER_UPPER; one for each criterion with commas between them), or null",
    ),
    "algorithm.filter_groups.enable": switch(),
    "algorithm.filter_groups.metric": text(null="none", optional=True),
    "algorithm.filter_groups.max_num_gen_batches": whole(0, "of train_batch_size prompts, a step; 0: no limit"),
    "reward.num_workers": whole(1),
    "reward.custom_reward_function.path": path(null="verl's own function"),
    "reward.custom_reward_function.name": text(),
    "reward.reward_manager.name": text(),
    "reward.reward_kwargs.max_resp_len": whole(1, "tokens", optional=True),
    "reward.reward_kwargs.overlong_buffer_cfg.enable": switch(optional=True),
    "reward.reward_kwargs.overlong_buffer_cfg.len": whole(1, "tokens", optional=True),
    "reward.reward_kwargs.overlong_buffer_cfg.penalty_factor": number(least=0, optional=True),
    "reward.reward_kwargs.overlong_buffer_cfg.log": switch(optional=True),
    # actor
    f"{ACTOR}.strategy": one_of("fsdp2", "fsdp"),
    f"{ACTOR}.ppo_mini_batch_size": whole(1, f"problems of an optimizer step; 32 in the {PAPER}"),
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": whole(1, null="by tokens", optional=True),
    f"{ACTOR}.ppo_epochs": whole(1),
    f"{ACTOR}.use_dynamic_bsz": switch(),
    f"{ACTOR}.ppo_max_token_len_per_gpu": whole(1, "tokens"),
    f"{ACTOR}.clip_ratio": number(least=0),
    f"{ACTOR}.clip_ratio_low": number(least=0),
    f"{ACTOR}.clip_ratio_high": number(least=0),
    f"{ACTOR}.clip_ratio_c": number("the paper's scripts: 10.0", above=1),
    f"{ACTOR}.loss_agg_mode": one_of(
        "token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"
    ),
    f"{ACTOR}.entropy_coeff": number(least=0),
    f"{ACTOR}.grad_clip": number(above=0),
    f"{ACTOR}.use_kl_loss": switch(),
    f"{ACTOR}.kl_loss_coef": number(least=0),
    f"{ACTOR}.kl_loss_type": one_of(*KL_TYPES, *(f"{name}+" for name in KL_TYPES)),
    f"{ACTOR}.use_torch_compile": switch(),
    f"{ACTOR}.ulysses_sequence_parallel_size": whole(1),
    f"{ACTOR}.policy_loss._target_": text(optional=True),
    f"{ACTOR}.policy_loss.loss_mode": text(),
    f"{ACTOR}.policy_loss.kl_coef": number("the paper: 1e-4", least=0, optional=True),
    f"{ACTOR}.policy_loss.clip_scope": one_of(*CLIP_SCOPES, optional=True),
    f"{ACTOR}.policy_loss.clip_branch": one_of(*CLIP_BRANCHES, optional=True),
    f"{ACTOR}.policy_loss.z_old": number("1.0 for a softmax policy", above=0, optional=True),
    f"{ACTOR}.optim.lr": number(f"1e-6 in the {PAPER}", least=0),
    f"{ACTOR}.optim.lr_warmup_steps": whole(-1, "-1: by lr_warmup_steps_ratio"),
    f"{ACTOR}.optim.lr_warmup_steps_ratio": number(least=0, most=1),
    f"{ACTOR}.optim.lr_scheduler_type": one_of("constant", "cosine"),
    f"{ACTOR}.optim.weight_decay": number(least=0),
    f"{ACTOR}.optim.optimizer": text(),
    f"{ACTOR}.optim.optimizer_impl": text(),
    f"{ACTOR}.optim.override_optimizer_config": Rule(dict[str, Any] | None, "a mapping, or null"),
    f"{ACTOR}.optim.override_optimizer_config.warmup_steps": whole(0, "of schedule-free AdamW", optional=True),
    f"{ACTOR}.fsdp_config.fsdp_size": whole(-1, "-1: all devices"),
    f"{ACTOR}.fsdp_config.param_offload": switch(),
    f"{ACTOR}.fsdp_config.optimizer_offload": switch(),
    f"{ACTOR}.fsdp_config.use_torch_compile": switch(),
    f"{ACTOR}.fsdp_config.model_dtype": one_of(*DTYPES),
    f"{ACTOR}.fsdp_config.mixed_precision.param_dtype": one_of(*DTYPES, optional=True),
    f"{ACTOR}.fsdp_config.mixed_precision.reduce_dtype": one_of(*DTYPES, optional=True),
    f"{ACTOR}.fsdp_config.mixed_precision.buffer_dtype": one_of(*DTYPES, optional=True),
    # reference
    f"{REF}.fsdp_config.model_dtype": one_of(*DTYPES),
    f"{REF}.fsdp_config.mixed_precision": Rule(dict[str, Any] | None, "a mapping, or null", optional=True),
    f"{REF}.log_prob_max_token_len_per_gpu": whole(1, "tokens"),
    # model
    f"{MODEL}.path": path("MODEL_PATH sets it"),
    f"{MODEL}.tokenizer_path": path(null="the model's"),
    f"{MODEL}.external_lib": text(null="none"),
    f"{MODEL}.use_remove_padding": switch(),
    f"{MODEL}.use_fused_kernels": switch(),
    f"{MODEL}.enable_gradient_checkpointing": switch(),
    f"{MODEL}.lora_rank": whole(0),
    f"{MODEL}.override_config.attn_implementation": one_of(
        "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "eager", optional=True
    ),
    # rollout
    f"{ROLLOUT}.name": one_of("vllm", "sglang", "trtllm"),
    f"{ROLLOUT}.n": whole(1, f"answers to a problem; 16 in the {PAPER}"),
    f"{ROLLOUT}.calculate_log_probs": switch(),
    f"{ROLLOUT}.nnodes": whole(0, "of rollouts with GPUs of their own"),
    f"{ROLLOUT}.n_gpus_per_node": whole(0, "of rollouts with GPUs of their own"),
    f"{ROLLOUT}.temperature": number("log-probabilities are divided by it", above=0),
    f"{ROLLOUT}.top_p": number(above=0, most=1),
    f"{ROLLOUT}.top_k": whole(-1, "-1: all"),
    f"{ROLLOUT}.val_kwargs.n": whole(1),
    f"{ROLLOUT}.val_kwargs.temperature": number(least=0),
    f"{ROLLOUT}.val_kwargs.top_p": number(above=0, most=1),
    f"{ROLLOUT}.val_kwargs.top_k": whole(-1, "-1: all"),
    f"{ROLLOUT}.val_kwargs.do_sample": switch(),
    f"{ROLLOUT}.dtype": one_of("auto", "half", "float", *DTYPES[3:]),
    f"{ROLLOUT}.tensor_model_parallel_size": whole(1),
    f"{ROLLOUT}.data_parallel_size": whole(1),
    f"{ROLLOUT}.gpu_memory_utilization": number("share of a device", above=0, most=1),
    f"{ROLLOUT}.max_model_len": whole(1, "tokens", null="the model's longest"),
    f"{ROLLOUT}.max_num_seqs": whole(1),
    f"{ROLLOUT}.max_num_batched_tokens": whole(1, "tokens"),
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu": whole(1, "tokens"),
    f"{ROLLOUT}.log_prob_use_dynamic_bsz": switch(),
    f"{ROLLOUT}.enforce_eager": switch(),
    f"{ROLLOUT}.free_cache_engine": switch(),
    f"{ROLLOUT}.enable_sleep_mode": switch(optional=True),
    f"{ROLLOUT}.enable_prefix_caching": switch(),
    f"{ROLLOUT}.enable_chunked_prefill": switch(),
    f"{ROLLOUT}.agent.num_workers": whole(1),
    f"{ROLLOUT}.checkpoint_engine.backend": text("what takes the weights to rollouts with GPUs of their own"),
    f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": whole(1, "MB"),
    f"{ROLLOUT}.checkpoint_engine.custom_backend_module": text(null="none", optional=True),
    f"{ROLLOUT}.engine_kwargs.vllm.distributed_executor_backend": one_of(
        "uni", "mp", "ray", "external_launcher", optional=True
    ),
    # Ray and TransferQueue
    "ray_kwargs.ray_init.num_cpus": number(above=0, null="Ray counts"),
    "ray_kwargs.ray_init.num_gpus": whole(0, null="Ray counts", optional=True),
    "ray_kwargs.ray_init.include_dashboard": Rule(bool | None, "true, false or null", optional=True),
    "ray_kwargs.ray_init.dashboard_port": port(null="Ray's"),
    f"{ROLLOUT}.prometheus.port": port(),
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": whole(1),
}


def parents(key: str) -> list[str]:
    """The sections that a key lies in, outermost first: a.b.c -> a, a.b."""
    names = key.split(".")
    return [".".join(names[:count]) for count in range(1, len(names))]


SECTIONS = sorted({section for key in SCHEMA for section in parents(key)})


@check("types and ranges", "every key of the schema holds what its line says")
def values(run: Run) -> Iterator[Finding]:
    """Every key of SCHEMA that holds something else; a section that is no mapping once, not its keys."""
    broken: list[str] = []
    for section in SECTIONS:
        held = run.get(section, ABSENT)
        if isinstance(held, dict) or any(outer in broken for outer in parents(section)):
            continue
        inside = [rule for key, rule in SCHEMA.items() if key.startswith(f"{section}.")]
        if all(rule.optional for rule in inside) and held in (ABSENT, None):
            continue
        broken.append(section)
        if held is ABSENT:
            yield Finding(section, held, "this section is missing", f"remove '~{section}' from the overrides")
        else:
            yield Finding(section, held, "must be a mapping", f"set its keys one by one, as {section}.KEY=VALUE")
    for key, rule in SCHEMA.items():
        if any(section in broken for section in parents(key)):
            continue
        held = run.get(key, ABSENT)
        if held is ABSENT:
            if not rule.optional:
                yield Finding(key, held, f"is missing; it is {rule.wanted}", f"remove '~{key}' from the overrides")
        elif not rule.accepts(held):
            quoted = repr(held) if isinstance(held, str) else held
            yield Finding(key, quoted, f"must be {rule.wanted}" + (f" ({rule.note})" if rule.note else ""))


OURS = "rpg"


@check("settings of rpg", "the section rpg has the keys that the recipe reads, and no other")
def settings(run: Run) -> Iterator[Finding]:
    """Misspelt keys with a + before them, which no dataclass of verl refuses."""
    yield from _unknown(OURS, run.get(OURS))


def _unknown(section: str, held: Any) -> Iterator[Finding]:
    for name, value in held.items() if isinstance(held, dict) else ():
        key = f"{section}.{name}"
        if key in SECTIONS:
            yield from _unknown(key, value)
        elif key not in SCHEMA:
            ours = [known for known in SCHEMA if known.startswith(f"{OURS}.")]
            near = difflib.get_close_matches(key, ours, n=1, cutoff=0)
            yield Finding(key, value, "no such setting", f"did you mean {near[0]}?")
