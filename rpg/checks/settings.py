"""Checks of verl's settings that are valid on their own but would silently do something else, or fail after hours.

A check is a function that preflight.py calls; the first sentence of its docstring is what must hold.
"""

from rpg.config.run_config import RunConfig, logs_to
from rpg.config.user_code import is_ours
from rpg.config.verl_keys import ACTOR, FUNCTION, MODEL, OPTIM, OVERLONG, REF, ROLLOUT
from rpg.diagnostics import Findings

METRICS = ("acc", "score", "reward")  # keys that rpg.rewards returns, and verl's name of the reward
BATCH, MINI_BATCH, N = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"
PADS = "verl would pad the batch with made-up samples"


def mini_batches(run: RunConfig) -> Findings:
    """The mini-batch divides the batch, and the ranks its responses; otherwise verl pads with made-up samples."""
    _, size = sequence_parallel(run)
    if run[BATCH] % run[MINI_BATCH]:
        yield run.error(MINI_BATCH, f"does not divide {run.shown(BATCH)}; {PADS}", "choose one that divides it")
    elif run[MINI_BATCH] * run[N] % (ranks := max(1, run.devices // size)):
        message = f"times {run.shown(N)} responses are not divided by {ranks} data-parallel ranks; {PADS}"
        yield run.error(MINI_BATCH, message, "raise it, or use fewer GPUs")


def sequence_parallel(run: RunConfig, section: str = ACTOR) -> tuple[str, int]:
    """Return the key that verl reads for Ulysses, and its value: of its two keys the deprecated one above 1."""
    old, new = f"{section}.ulysses_sequence_parallel_size", f"{section}.fsdp_config.ulysses_sequence_parallel_size"
    key = old if run[old] > 1 else new
    return key, run[key]


def ulysses(run: RunConfig) -> Findings:
    """Sequence parallelism of actor and reference has flash attention and packed sequences.

    verl exchanges heads in transformers' flash path alone. With sdpa each rank would attend to its own part of the
    sequence: on two ranks log-probs were off by up to 2.4 nats.
    """
    attention, packs = f"{MODEL}.override_config.attn_implementation", f"{MODEL}.use_remove_padding"
    for section in (ACTOR, *([REF] if run.has_reference_model else [])):
        key, size = sequence_parallel(run, section)
        if size > 1 and run[attention] not in ("flash_attention_2", "flash_attention_3"):
            message = f"with {run.shown(attention)} attends to parts of a sequence"
            yield run.error(key, message, "set it to 1, or use flash-attn")
        elif size > 1 and not run[packs]:
            yield run.error(key, f"is not read with {run.shown(packs)}", "set it to 1, or pack the sequences")


def token_budgets(run: RunConfig) -> Findings:
    """Prompt plus response fits into every token budget, and verl cuts neither at another length."""
    of_reference = run.has_reference_model and not run[f"{MODEL}.lora_rank"]
    budgets = (
        (f"{ROLLOUT}.max_model_len", True, 1),
        (f"{ROLLOUT}.max_num_batched_tokens", not run[f"{ROLLOUT}.enable_chunked_prefill"], 1),
        (f"{ACTOR}.ppo_max_token_len_per_gpu", run[f"{ACTOR}.use_dynamic_bsz"], sequence_parallel(run)[1]),
        (
            f"{ROLLOUT}.log_prob_max_token_len_per_gpu", run[f"{ROLLOUT}.log_prob_use_dynamic_bsz"],
            sequence_parallel(run)[1],
        ),
        (
            f"{REF}.log_prob_max_token_len_per_gpu", of_reference and run[f"{REF}.log_prob_use_dynamic_bsz"],
            sequence_parallel(run, REF)[1],
        ),
    )  # fmt: skip
    for key, applies, parts in budgets:
        if applies and run[key] is not None and run[key] * parts < run.length:
            short = f"is below data.max_prompt_length + data.max_response_length = {run.length} tokens"
            yield run.error(key, short, "raise it, or shorten the lengths")
    for cut, length in (("response_length", "data.max_response_length"), ("prompt_length", "data.max_prompt_length")):
        if run[f"{ROLLOUT}.{cut}"] not in (None, run[length]):
            yield run.error(f"{ROLLOUT}.{cut}", f"would cut at another length than {run.shown(length)}", "remove it")


def overlong_shaping(run: RunConfig) -> Findings:
    """The overlong penalty is read, and begins before the longest response and not before the first token."""
    if not run[f"{OVERLONG}.enable"]:
        return
    off, longest = f"set {OVERLONG}.enable=false", "reward.reward_kwargs.max_resp_len"
    response = run["data.max_response_length"]
    if run["reward.reward_manager.name"] != "dapo":
        yield run.error("reward.reward_manager.name", f"does not read {OVERLONG}", f"use dapo, or {off}")
    elif run[longest] != response:
        message = f"must be data.max_response_length={response}, or the penalty begins at another length"
        yield run.error(longest, message, "remove the override")
    for name in ("len", "penalty_factor", "log"):
        if run[f"{OVERLONG}.{name}"] is None:
            yield run.error(f"{OVERLONG}.{name}", "is needed by the overlong buffer")
    if (run[f"{OVERLONG}.len"] or 0) >= response:
        message = f"is not below data.max_response_length={response}: every response would be penalised"
        yield run.error(f"{OVERLONG}.len", message, f"shorten it, or {off}")


def dynamic_sampling(run: RunConfig) -> Findings:
    """Filtering has a metric that the reward returns, and groups of two responses; else no batch is ever full."""
    if not run["algorithm.filter_groups.enable"]:
        return
    metric = "algorithm.filter_groups.metric"
    if run[metric] is None or (is_ours(run[f"{FUNCTION}.path"]) and run[metric] not in METRICS):
        yield run.error(metric, f"must be a number that the reward returns: {', '.join(METRICS)}", "set it to acc")
    if run[N] == 1:
        message = "with algorithm.filter_groups.enable=true drops every group: one response has no variance"
        yield run.error(N, message, "use 2 or more responses, or disable the filter")


def resumption(run: RunConfig) -> Findings:
    """A named checkpoint is resumed from, and a resume draws no other rows."""
    mode, path = "trainer.resume_mode", "trainer.resume_from_path"
    for key in ("data.train_max_samples", "data.val_max_samples"):
        if run["data.seed"] is None and run[key] > 0:
            message = f"with {run.shown(key)}: each start, also a resume, would draw other rows"
            yield run.error("data.seed", message, "set it to a number")
    if (run[mode] == "resume_path") != (run[path] is not None):
        remedy = f"set {mode}=resume_path and name a run's global_step_N directory, or remove both"
        yield run.error(path, f"does not agree with {run.shown(mode)}", remedy)


def saving(run: RunConfig) -> Findings:
    """Checkpoints hold what a resume needs, where it looks for them."""
    contents = f"{ACTOR}.checkpoint.save_contents", f"{ACTOR}.checkpoint.load_contents"
    needed = {"model"} if run["trainer.val_only"] else {"model", "optimizer", "extra"}
    for key in contents:
        if isinstance(run[key], list) and (missing := sorted(needed - {*run[key]})):
            level = "error" if "model" in missing else "warning"
            message = f"lacks {', '.join(missing)}: a resumed run would begin anew with them"
            yield run.error(key, message, "add them", level)
    if run[f"{ACTOR}.checkpoint.async_save"]:
        message = "is a Megatron option; with FSDP verl saves synchronously, and then does not update its tracker"
        yield run.error(f"{ACTOR}.checkpoint.async_save", message, "remove it")
    if run["trainer.default_hdfs_dir"] is not None:
        yield run.error("trainer.default_hdfs_dir", "is not read by FSDP: verl copies nothing there", "remove it")
    if run["trainer.save_freq"] < 1 and not run["trainer.val_only"]:
        message = "saves no checkpoint: nothing of the run can be resumed, evaluated (rpg eval) or exported"
        yield run.error("trainer.save_freq", message, "set it to a number of steps", "warning")
    if not logs_to(run["trainer.logger"], "file"):
        message = "lacks file: metrics.jsonl, which rpg table, plot and the progress bar read, is not written"
        yield run.error("trainer.logger", message, "add file")


def validation(run: RunConfig) -> Findings:
    """A run with val_only validates and ends; a greedy validation has temperature 0."""
    greedy, temperature = f"{ROLLOUT}.val_kwargs.do_sample", f"{ROLLOUT}.val_kwargs.temperature"
    if run[greedy] is False and run[temperature]:
        message = f"is not read by verl's V1 trainer: validations would sample with {run.shown(temperature)}"
        yield run.error(greedy, message, f"set {temperature}=0")
    if run["trainer.val_only"] and not run["trainer.val_before_train"]:
        message = "with trainer.val_only=true would train: verl ends the run after that validation"
        yield run.error("trainer.val_before_train", message, "set it to true")


def read_by_verl(run: RunConfig) -> Findings:
    """Settings that another one replaces, or that leave the training out, keep their defaults."""
    if run[f"{ACTOR}.clip_ratio"] != 0.2:
        bounds = f"{ACTOR}.clip_ratio_low and {ACTOR}.clip_ratio_high"
        yield run.error(f"{ACTOR}.clip_ratio", f"is not read: {bounds} are set", "set these, or clip=LOW_HIGH")
    if run[f"{ROLLOUT}.repetition_penalty"] not in (None, 1.0):
        yield run.error(f"{ROLLOUT}.repetition_penalty", "is not read: verl always sends 1", "remove it")
    if run["trainer.critic_warmup"]:
        message = "would leave out the actor's updates; there is no critic"
        yield run.error("trainer.critic_warmup", message, "remove it")
    steps, ratio = f"{OPTIM}.lr_warmup_steps", f"{OPTIM}.lr_warmup_steps_ratio"
    if run[ratio] and run[steps] > 0:
        yield run.error(ratio, f"is not read with {run.shown(steps)}", f"set {steps}=-1")


def lora(run: RunConfig) -> Findings:
    """The adapter is trained: verl's FSDP engine reads only lora_rank."""
    rank = f"{MODEL}.lora_rank"
    if run[f"{MODEL}.lora.rank"]:
        message = "is Megatron's key: with FSDP no adapter would be trained"
        yield run.error(f"{MODEL}.lora.rank", message, f"set {rank}")
    if run[f"{MODEL}.lora_adapter_path"] and not run[rank]:
        yield run.error(f"{MODEL}.lora_adapter_path", "is not loaded without a rank", f"set {rank} to the adapter's")
