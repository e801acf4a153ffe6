"""Checks of verl's settings that are valid on their own but would silently do something else, or fail after hours.

A check is a function that preflight.py calls; the first sentence of its docstring is what must hold.
"""

from rpg.checks.loss import BATCH, ESTIMATOR, LOSS_MODE, MINI_BATCH, N
from rpg.checks.off_policy import SAMPLER, SCHEDULE, THRESHOLD, WEIGHT
from rpg.config import verl_keys
from rpg.config.run_config import RunConfig, logs_to
from rpg.config.types import non_defaults
from rpg.config.verl_keys import ACTOR, CORRECTION, FSDP, FUNCTION, LOSS, MODEL, OPTIM, OVERLONG, REF, ROLLOUT, SEPARATE
from rpg.diagnostics import Findings
from rpg.rewards import OURS
from rpg.rewards.user_reward import ADAPTER

METRICS = ("acc", "score", "reward")  # keys that rpg.rewards returns, and verl's name of the reward
ULYSSES = "ulysses_sequence_parallel_size"
# keys and sections that verl's FSDP engine and V1 trainer do not read: the remedy
UNREAD = {
    f"{ACTOR}.clip_ratio": "set clip_ratio_low and clip_ratio_high, or choose clip=LOW_HIGH",
    f"{ACTOR}.grad_clip": f"set {OPTIM}.clip_grad",
    f"{ACTOR}.qat.enable": f"set {FSDP}.qat.enable",
    f"{ACTOR}.use_rollout_log_probs": "set pi_old=behavior",
    f"{LOSS}.rollout_correction": "set algorithm.rollout_correction",
    f"{OPTIM}.total_training_steps": "set trainer.total_training_steps",
    f"{FSDP}.dtype": f"set {FSDP}.mixed_precision.param_dtype",
    f"{ROLLOUT}.multi_turn.enable": f"set {ROLLOUT}.agent.default_agent_loop",
    f"{ROLLOUT}.do_sample": f"set {ROLLOUT}.temperature: rollouts always sample",
    f"{CORRECTION}.loss_type": f"set {LOSS_MODE}",
    "data.tokenizer": f"set {MODEL}.tokenizer_path",
    "data.reward_fn_key": "name the column data_source, which selects the scoring rule",
    "reward.sandbox_fusion": "call the sandbox from the function of rpg.reward=FILE",
    "trainer.esi_redundant_time": "set trainer.save_freq",
    "custom_reward_function": "set rpg.reward=FILE",  # a section of verl 0.6, as the next two
    "reward_model": "set reward.NAME",
    "sandbox_fusion": "call the sandbox from the function of rpg.reward=FILE",
} | dict.fromkeys((
    "actor_rollout_ref.nccl_timeout", f"{ROLLOUT}.agent.custom_async_server", f"{ROLLOUT}.over_sample_rate",
    f"{REF}.fsdp_config.dtype", "algorithm.use_pf_ppo", "algorithm.kl_ctrl.target_kl", "trainer.default_hdfs_dir",
    "trainer.balance_batch", f"{ACTOR}.freeze_vision_tower",
), "remove it")  # fmt: skip
# keys that change the training unasked: the values without an effect, and what happens with another
FIXED = {
    f"{MODEL}.hf_config_path": ((None,), f"is for the trainer only: vLLM reads the config of {MODEL}.path"),
    f"{ROLLOUT}.repetition_penalty": ((None, 1.0), "is not read: verl always sends 1"),
    f"{OPTIM}.warmup_style": ((None,), f"is deprecated, and would replace {OPTIM}.lr_scheduler_type"),
    "data.truncation": (("left", "error"), "is not read: data.filter_overlong_prompts=true drops longer prompts"),
    "reward.reward_model.enable": ((False,), "would load a model that no run uses: the reward function scores"),
    "distillation.enabled": ((False,), "would replace the loss by a teacher's"),
    f"{ROLLOUT}.full_determinism": ((False,), "would give all responses to a prompt the same seed and text"),
    "algorithm.kl_ctrl.type": (("fixed",), "adapts kl_coef without saving it: a resumed run would start it anew"),
    f"{ACTOR}.checkpoint.async_save": ((False,), "is for Megatron: a resume would not find the checkpoints"),
    "trainer.critic_warmup": ((0,), "would skip the actor's first updates, for a critic that no run has"),
    "trainer.v1.sampler.custom_sampler.path": ((None,), "would replace the order of prompts, or not be read"),
    "actor_rollout_ref.hybrid_engine": ((True,), "would put the reference into another process than the actor"),
    f"{ACTOR}.{ULYSSES}": ((1,), f"also sets the reference's; use {FSDP}.{ULYSSES}"),
    f"{REF}.{ULYSSES}": ((1,), f"is deprecated; use {REF}.fsdp_config.{ULYSSES}"),
    f"{MODEL}.use_shm": ((False,), "would load an old copy in /dev/shm if new weights have its size"),
    "data.use_shm": ((False,), "would load an old copy in /dev/shm if a new file has its size"),
    f"{MODEL}.external_lib": (("rpg.verl_plugin.rollout",), "loads rpg's patches; set rpg.external_lib=[FILE]"),
}
OF_ADAPTER = [f"{MODEL}.{name}" for name in ("lora_alpha", "target_modules", "exclude_modules")]
# what verl reads only with some values of another key: that key and the values, and the keys or sections read with them
READ_WITH = {
    (f"{ACTOR}.use_kl_loss", (True,)): [f"{ACTOR}.kl_loss_coef", f"{ACTOR}.kl_loss_type"],
    ("algorithm.use_kl_in_reward", (True,)): ["algorithm.kl_penalty", "algorithm.kl_ctrl.kl_coef"],
    (ESTIMATOR, ("grpo", "grpo_passk")): ["algorithm.norm_adv_by_std_in_grpo"],
    (ESTIMATOR, ("gae", "reinforce_plus_plus")): ["algorithm.gamma"],
    (ESTIMATOR, ("gae",)): ["algorithm.lam"],
    (ESTIMATOR, ("gdpo",)): ["algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights"],
    (WEIGHT, ("token", "sequence")): [THRESHOLD, f"{CORRECTION}.rollout_is_batch_normalize"],
    (SCHEDULE, ("colocate_async", SEPARATE)): [f"{SAMPLER}_threshold", f"{SAMPLER}_strategy"],
    (SCHEDULE, ("colocate_async",)): ["trainer.v1.colocate_async"],
    (SCHEDULE, (SEPARATE,)): [f"trainer.v1.{SEPARATE}", f"{ROLLOUT}.nnodes"],
    (f"{ACTOR}.loss_agg_mode", ("seq-mean-token-sum-norm",)): [f"{ACTOR}.loss_scale_factor"],
    (LOSS_MODE, ("sapo",)): [f"{ACTOR}.tau_pos", f"{ACTOR}.tau_neg"],
    (LOSS_MODE, ("clip_cov",)): [f"{LOSS}.clip_cov_{name}" for name in ("ratio", "lb", "ub")],
    (LOSS_MODE, ("kl_cov",)): [f"{LOSS}.kl_cov_ratio", f"{LOSS}.ppo_kl_coef"],
    (LOSS_MODE, ("dro",)): [f"{LOSS}.dro_beta"],
    (f"{OPTIM}.lr_scheduler_type", ("cosine",)): [
        f"{OPTIM}.{name}" for name in ("min_lr_ratio", "num_cycles", "zero_indexed_step")
    ],
    (f"{OPTIM}.lr_warmup_steps", (-1, 0)): [f"{OPTIM}.lr_warmup_steps_ratio"],
    (f"{FSDP}.full_determinism", (True,)): [f"{FSDP}.seed"],
    (f"{ACTOR}.shuffle", (True,)): [f"{ACTOR}.data_loader_seed"],
    ("reward.reward_manager.source", ("importlib",)): ["reward.reward_manager.module"],
    (f"{MODEL}.lora_adapter_path", (None,)): OF_ADAPTER,  # else its adapter_config.json has them
    (f"{MODEL}.lora_rank", range(1, 10_000)): [f"{MODEL}.lora_adapter_path", *OF_ADAPTER],
}  # fmt: skip


def without_effect(run: RunConfig) -> Findings:
    """Keys that verl does not read here, or that would change the training unasked, keep their defaults."""
    for key, (values, message) in FIXED.items():
        if run[key] not in values:
            yield run.error(key, message, "remove it")
    for section, remedy in UNREAD.items():
        for key in non_defaults(run.config, section):
            yield run.error(key, "is not read by verl's FSDP engine and V1 trainer", remedy)
    for source, followers in verl_keys.FOLLOWERS.items():
        for key in followers:
            if run[key] != run[source]:
                yield run.error(key, f"follows from {source}", f"set {source}")
    for (switch, values), keys in READ_WITH.items():  # own code may read any
        if run[switch] in values or (run.rpg.external_lib and switch in (ESTIMATOR, LOSS_MODE)):
            continue
        for key in non_defaults(run.config, *keys):
            yield run.error(key, f"is not read with {run.shown(switch)}", "remove it")
    if run[f"{FUNCTION}.path"] != (ADAPTER if run.own_reward else OURS):
        yield run.error(f"{FUNCTION}.path", "follows from rpg.reward", "set rpg.reward=FILE")
    for key in non_defaults(run.config, f"{MODEL}.lora"):  # but rollouts read two
        if not key.endswith((".merge", ".fully_sharded_loras")):
            yield run.error(key, "is Megatron's: FSDP does not read it", f"set {MODEL}.lora_rank or {MODEL}.lora_alpha")
    passed = f"{ROLLOUT}.engine_kwargs.vllm.hf_overrides"
    for name in (run[f"{MODEL}.override_config"] or {}).keys() - (run[passed] or {}).keys() - {"attn_implementation"}:
        message = "changes the trainer's model, but not vLLM's"
        yield run.error(f"{MODEL}.override_config.{name}", message, f"also set +{passed}.{name}", "warning")


def mini_batches(run: RunConfig) -> Findings:
    """The mini-batch divides the batch, and the ranks its responses; otherwise verl pads with made-up samples.

    Micro-batches of a fixed size divide a rank's part, which verl asserts after the first rollouts.
    """
    ranks = max(1, run.devices // run[f"{FSDP}.{ULYSSES}"])
    if run[BATCH] % run[MINI_BATCH]:
        yield run.error(MINI_BATCH, f"does not divide {run.shown(BATCH)}", "choose one that divides it")
    elif run[MINI_BATCH] * run[N] % ranks:
        yield run.error(MINI_BATCH, f"times {run.shown(N)} is not a multiple of {ranks} ranks", "raise it")
    parts = {f"{ACTOR}.ppo_micro_batch_size_per_gpu": (f"{ACTOR}.use_dynamic_bsz", run[MINI_BATCH])}
    for section in (ROLLOUT, *([REF] if run.has_reference_model else [])):
        parts[f"{section}.log_prob_micro_batch_size_per_gpu"] = f"{section}.log_prob_use_dynamic_bsz", run[BATCH]
    for key, (dynamic, prompts) in parts.items():
        if not run[dynamic] and run[key] and (of_rank := prompts * run[N] // ranks) % run[key]:
            yield run.error(key, f"does not divide a rank's {of_rank} responses", f"use a divisor, or {dynamic}=true")


def ulysses(run: RunConfig) -> Findings:
    """Sequence parallelism of actor and reference has flash attention and packed sequences.

    verl exchanges heads in transformers' flash path alone. With sdpa each rank would attend to its own part of the
    sequence: on two ranks log-probs were off by up to 2.4 nats.
    """
    attention, packs = f"{MODEL}.override_config.attn_implementation", f"{MODEL}.use_remove_padding"
    for key in (f"{FSDP}.{ULYSSES}", *([f"{REF}.fsdp_config.{ULYSSES}"] if run.has_reference_model else [])):
        if run[key] > 1 and not (str(run[attention]).startswith("flash_attention") and run[packs]):
            yield run.error(key, f"needs flash-attn and {packs}=true, else ranks attend to parts", "set it to 1")


def token_budgets(run: RunConfig) -> Findings:
    """Prompt plus response fits into every token budget.

    vLLM would shorten responses; verl's micro-batches would end the run at the first response of full length.
    """
    ranks, dynamic, tokens = run[f"{FSDP}.{ULYSSES}"], "log_prob_use_dynamic_bsz", "log_prob_max_token_len_per_gpu"
    of_reference = run.has_reference_model and run[f"{REF}.{dynamic}"]
    budgets = (  # key, whether it is read, ranks that share a sequence
        (f"{ROLLOUT}.max_model_len", True, 1),
        (f"{ROLLOUT}.engine_kwargs.vllm.max_model_len", True, 1),
        (f"{ACTOR}.ppo_max_token_len_per_gpu", run[f"{ACTOR}.use_dynamic_bsz"], ranks),
        (f"{ROLLOUT}.{tokens}", run[f"{ROLLOUT}.{dynamic}"], ranks),
        (f"{REF}.{tokens}", of_reference, run[f"{REF}.fsdp_config.{ULYSSES}"]),
    )
    for key, is_read, parts in budgets:
        if is_read and run[key] is not None and run[key] * parts < run.length:
            yield run.error(key, f"is below prompt + response = {run.length} tokens", "raise it")


def rewards_and_filter(run: RunConfig) -> Findings:
    """The overlong penalty is read and begins within the response; filtering has a metric and groups of two or more."""
    manager, response = "reward.reward_manager.name", "data.max_response_length"
    if run[f"{OVERLONG}.enable"]:
        if run[manager] != "dapo":
            yield run.error(manager, f"does not read {OVERLONG}", f"use dapo, or set {OVERLONG}.enable=false")
        if (run[f"{OVERLONG}.len"] or 0) >= run[response]:
            yield run.error(f"{OVERLONG}.len", f"penalises every response, as {run.shown(response)}", "lower it")
    if run["algorithm.filter_groups.enable"]:
        metric = "algorithm.filter_groups.metric"
        if run.own_reward is None and run[metric] not in METRICS:
            yield run.error(metric, f"must be a number that the reward returns: {', '.join(METRICS)}", "set it to acc")
        if run[N] == 1:
            yield run.error(N, "makes algorithm.filter_groups drop every group", "use 2 or more, or disable the filter")


def checkpoints_and_logs(run: RunConfig) -> Findings:
    """Checkpoints hold what a resume needs and it looks for them, metrics.jsonl is written, validations are as set."""
    needed = {"model"} if run["trainer.val_only"] else {"model", "optimizer", "extra"}
    for key in (f"{ACTOR}.checkpoint.save_contents", f"{ACTOR}.checkpoint.load_contents"):
        if isinstance(run[key], list) and (missing := sorted(needed - {*run[key]})):
            level = "error" if "model" in missing else "warning"
            yield run.error(key, f"lacks {', '.join(missing)}, which a resumed run would start anew", "add them", level)
    mode, path = "trainer.resume_mode", "trainer.resume_from_path"
    if (run[mode] == "resume_path") != (run[path] is not None):
        yield run.error(path, f"contradicts {run.shown(mode)}", f"set {mode}=resume_path and a path, or neither")
    if not logs_to(run["trainer.logger"], "file"):
        yield run.error("trainer.logger", "would write no metrics.jsonl, which rpg table and plot read", "add file")
    greedy, temperature = f"{ROLLOUT}.val_kwargs.do_sample", f"{ROLLOUT}.val_kwargs.temperature"
    if run[greedy] is False and run[temperature]:
        yield run.error(greedy, "is not read by verl's V1 trainer: validations would sample", f"set {temperature}=0")
    if run["trainer.val_only"] and not run["trainer.val_before_train"]:
        yield run.error("trainer.val_before_train", "would train in spite of trainer.val_only=true", "set it to true")
