"""Checks of settings that are valid on their own but inconsistent together: batches, lengths, saving, optimizer.

A check is a function that preflight.py calls; the first sentence of its docstring is what must hold.
"""

from rpg.config.keys import KEYS, MODEL, SEPARATE, Settings
from rpg.config.run_config import RunConfig, logs_to, verl_defaults
from rpg.config.user_code import SOCKETS, is_ours
from rpg.diagnostics import Diagnostic, Findings
from rpg.dotted import leaves, value_at
from rpg.verl_plugin.schedule_free import OPTIMIZER, PACKAGE, asked_for

METRICS = ("acc", "score", "reward")  # keys that rpg.rewards returns, and verl's name of the reward
UNREAD = {  # by verl's V1 trainer with FSDP, or overwritten; with their defaults
    "balances": True, "over_samples": 0, "pf_ppo": False, "samples_rollouts": True, "groups_prefixes": False,
    "freezes_vision": False, "optimizer_steps": -1, "clip": 0.2, "nccl_timeout": 600, "bypass_loss": "ppo_clip",
    "repetition_penalty": 1.0,
}  # fmt: skip
PADS = "verl would pad the batch with made-up samples"


def mini_batches(run: RunConfig) -> Findings:
    """The mini-batch divides the batch; otherwise verl pads it with made-up samples."""
    s = run.settings
    if s.batch % s.mini_batch:
        remedy = "choose a mini-batch size that divides the batch size"
        yield s.error("mini_batch", f"does not divide {s.shown('batch')}; {PADS}", remedy)
    if s.gen_batch not in (None, 1) and (s.filters or s.schedule != "sync"):
        yield s.error("gen_batch", "is overwritten by 1 with a filter or an asynchronous schedule", "remove it")
    elif s.gen_batch and s.batch % s.gen_batch:
        yield s.error("gen_batch", f"does not divide {s.shown('batch')}", "remove it")


def ranks(run: RunConfig) -> Findings:
    """The ranks divide the responses of a mini-batch; the sequence-parallel size divides the ranks."""
    s, (name, size) = run.settings, sequence_parallel(run.settings)
    if s.devices % size:
        yield s.error(name, f"does not divide {_devices(s)}", "set it to a divisor of that number")
    elif s.mini_batch * s.n % (s.devices // size):
        what = f"times {s.shown('n')} responses are not divided by the ranks ({s.gpus} x {s.nodes} GPUs / "
        yield s.error("mini_batch", f"{what}{size}); {PADS}", "raise it, or use fewer GPUs")


def sequence_parallel(s: Settings, prefix: str = "") -> tuple[str, int]:
    """Return the setting that verl reads for Ulysses, and its value: of its two keys the deprecated one above 1.

    prefix: "ref_" for the reference model's.
    """
    old, new = f"{prefix}sequence_parallel_old", f"{prefix}sequence_parallel"
    name = old if getattr(s, old) > 1 else new
    return name, getattr(s, name)


def ulysses(run: RunConfig) -> Findings:
    """Sequence parallelism of actor and reference has flash attention and packed sequences.

    verl exchanges heads in transformers' flash path alone. With sdpa each rank would attend to its own part of the
    sequence: on two ranks log-probs were off by up to 2.4 nats.
    """
    s = run.settings
    sizes = [sequence_parallel(s)]
    if s.has_reference_model:
        sizes.append(sequence_parallel(s, "ref_"))
    for name, size in sizes:
        if size > 1 and s.attention not in ("flash_attention_2", "flash_attention_3"):
            message = f"with {s.shown('attention')} attends to parts of a sequence"
            yield s.error(name, message, "set it to 1, or use flash-attn")
        elif size > 1 and not s.packs:
            yield s.error(name, f"is not read with {s.shown('packs')}", "set it to 1, or pack the sequences")


def rollout_replicas(run: RunConfig) -> Findings:
    """Tensor times data parallel size of a vLLM replica divides the GPUs."""
    s = run.settings
    if s.devices % (s.tensor_parallel * s.data_parallel):
        yield s.error("tensor_parallel", f"x data_parallel_size={s.data_parallel} does not divide {_devices(s)}")


def _devices(s: Settings) -> str:
    return f"the {s.gpus} x {s.nodes} GPUs of {KEYS['gpus']} x {KEYS['nodes']}"


def rollout_sockets(run: RunConfig) -> Findings:
    """Actor and rollout use one socket name; otherwise each waits for the other."""
    s = run.settings
    if s.transfer_module == SOCKETS != s.external_lib:
        yield s.error("external_lib", f"must be {SOCKETS}, as {KEYS['transfer_module']} is", "set both or neither")
    if s.schedule == SEPARATE and s.external_lib == SOCKETS != s.transfer_module:
        message = f"must be {SOCKETS} with {s.shown('schedule')}, as {KEYS['external_lib']} is"
        yield s.error("transfer_module", message, "keep the recipe's value, or import it in yours and set both")


def token_budgets(run: RunConfig) -> Findings:
    """Prompt plus response fits into every token budget."""
    s = run.settings
    of_reference = s.has_reference_model and not s.lora_rank
    short = f"is below {KEYS['prompt']} + {KEYS['response']} = {s.prompt} + {s.response} tokens"
    budgets = (
        ("context", True, s.context),
        ("batched_tokens", not s.chunked_prefill, s.batched_tokens),
        ("actor_tokens", s.actor_packs, s.actor_tokens * sequence_parallel(s)[1]),
        ("log_prob_tokens", s.log_prob_packs, s.log_prob_tokens * sequence_parallel(s)[1]),
        ("ref_tokens", of_reference and s.ref_packs, s.ref_tokens * sequence_parallel(s, "ref_")[1]),
    )
    for name, applies, tokens in budgets:
        if applies and tokens is not None and tokens < s.length:
            yield s.error(name, short, "raise it, or shorten the lengths")


def overlong_shaping(run: RunConfig) -> Findings:
    """The overlong buffer is complete, shorter than the response, and has the manager dapo."""
    s = run.settings
    if not s.overlong:
        return
    off = f"set {KEYS['overlong']}=false"
    if s.manager != "dapo":
        yield s.error("manager", f"does not read {KEYS['overlong']}", f"use dapo, or {off}")
    elif s.longest != s.response:
        message = f"must be {s.shown('response')}, or the penalty begins at another length"
        yield s.error("longest", message, "remove the override")
    for name in ("overlong_len", "overlong_factor", "overlong_log"):
        if getattr(s, name) is None:
            yield s.error(name, "is needed by the overlong buffer")
    if s.overlong_len is not None and s.overlong_len >= s.response:
        message = f"is not below {s.shown('response')}: every response would be penalised"
        yield s.error("overlong_len", message, f"shorten it, or {off}")


def dynamic_sampling(run: RunConfig) -> Findings:
    """Filtering has a metric that the reward returns, and groups of two responses or more."""
    s = run.settings
    if not s.filters:
        return
    if s.filter_metric is None:
        yield s.error("filter_metric", "is required for group filtering", "set it to acc")
    elif is_ours(s.reward) and s.filter_metric not in METRICS:
        message = f"is not returned by rpg.rewards, which returns {', '.join(METRICS[:2])}"
        yield s.error("filter_metric", message, f"did you mean {METRICS[0]}?")
    if s.n == 1:
        message = f"with {s.shown('filters')} drops every group: one response has no variance"
        yield s.error("n", message, "use 2 or more responses, or disable the filter")


def resumption(run: RunConfig) -> Findings:
    """resume_from_path is set if, and only if, resume_mode is resume_path; verl ignores it otherwise.

    Nothing that a resume needs is drawn anew, or missing in a checkpoint.
    """
    s = run.settings
    for name in ("train_samples", "val_samples"):
        if s.data_seed is None and getattr(s, name) > 0:
            message = f"with {s.shown(name)}: each start, also a resume, would draw other rows"
            yield s.error("data_seed", message, "set it to a number")
    if s.kl_in_reward and s.kl_in_reward_control == "adaptive":
        message = f"is in no checkpoint: a resume begins at {s.shown('kl_in_reward_coef')} again"
        yield s.finding("kl_in_reward_control", message, "set it to fixed", "warning")
    if (s.resume_mode == "resume_path") != (s.resume_path is not None):
        remedy = f"set {KEYS['resume_mode']}=resume_path and name a run's global_step_N directory, or remove both"
        yield s.error("resume_path", f"does not agree with {s.shown('resume_mode')}", remedy)


def saving(run: RunConfig) -> Findings:
    """Checkpoints have weights, optimizer and schedule; they are saved neither asynchronously nor to HDFS."""
    s = run.settings
    if s.save_freq < 1 and not s.val_only:
        message = "saves no checkpoint: nothing of the run can be resumed, evaluated (rpg eval) or exported"
        yield s.finding("save_freq", message, "set it to a number of steps", "warning")
    for name in ("save_contents", "load_contents"):
        contents = getattr(s, name)
        if isinstance(contents, list) and "model" not in contents:
            message = "lacks model: a run would resume at a later step with the initial weights"
            yield s.error(name, message, "add model")
    if isinstance(s.load_contents, list) and not s.val_only and not {"optimizer", "extra"} <= {*s.load_contents}:
        message = "lacks optimizer or extra: after a resume moments, warm-up or random numbers would start anew"
        yield s.finding("load_contents", message, "add them", "warning")
    if s.saves_async is True:
        message = "is a Megatron option; FSDP saves synchronously, and verl then does not update its tracker"
        yield s.error("saves_async", message, "remove it")
    if s.hdfs_directory is not None:
        yield s.error("hdfs_directory", "is not read by FSDP: verl copies no checkpoint there", "remove it")


def metrics_file(run: RunConfig) -> Findings:
    """The run logs to metrics.jsonl, from which its progress and the stall limit are read."""
    s = run.settings
    if not logs_to(s.loggers, "file"):
        yield s.error(
            "loggers", f"lacks file: without metrics.jsonl {KEYS['stall_limit']} would end the run", "add file"
        )


def validation(run: RunConfig) -> Findings:
    """A run with val_only has val_before_train; a greedy validation has temperature 0."""
    s = run.settings
    if s.val_do_sample is False and s.val_temperature:
        message = f"is not read by verl's V1 trainer: validations would sample with {s.shown('val_temperature')}"
        yield s.error("val_do_sample", message, f"set {KEYS['val_temperature']}=0")
    if s.val_only and not s.val_before_train:
        message = f"with {s.shown('val_only')} would train: verl ends the run after that validation"
        yield s.error("val_before_train", message, "set it to true")


def unread(run: RunConfig) -> Findings:
    """Keys that verl 0.9.1's V1 trainer with FSDP does not read, or overwrites, have their defaults."""
    s = run.settings
    for name, default in UNREAD.items():
        if getattr(s, name) not in (None, default):
            remedy = f"set {KEYS['clip_low']} and {KEYS['clip_high']}" if name == "clip" else "remove it"
            yield s.error(name, "is not read by verl's V1 trainer", remedy)
    if s.critic_warmup:
        yield s.error("critic_warmup", "would leave out the actor's updates; there is no critic", "remove it")
    if s.warmup_style is not None:
        yield s.error("warmup_style", "is verl's old name and wins over the new one", f"set {KEYS['lr_schedule']}")
    if s.warmup_ratio and s.warmup_steps > 0:
        yield s.error("warmup_ratio", f"is not read with {s.shown('warmup_steps')}", f"set {KEYS['warmup_steps']}=-1")
    if s.response_cut not in (None, s.response):
        message = f"would cut responses at another length than {s.shown('response')}"
        yield s.error("response_cut", message, f"set {KEYS['response']} only")
    for name in ("old_reward", "old_reward_model", "old_sandbox"):
        for key, value in leaves(getattr(s, name) or {}):
            if value not in (None, {}):
                message = "is a key of older verl, which 0.9.1 does not read"
                yield Diagnostic(f"{KEYS[name]}.{key}", value, message, f"set reward.{KEYS[name]}.{key}")


def lora(run: RunConfig) -> Findings:
    """The adapter is trained, and the rollouts use it.

    verl's FSDP engine reads only lora_rank; trainer and rollouts also read lora.rank.
    """
    s = run.settings
    if s.megatron_rank:
        message = f"is Megatron's key: with {s.strategy} no adapter would be trained"
        yield s.error("megatron_rank", message, f"set {KEYS['lora_rank']}")
    for name, value in (s.megatron_lora or {}).items():
        if name not in ("rank", "merge") and value != value_at(verl_defaults(), f"{KEYS['megatron_lora']}.{name}"):
            key = f"{KEYS['megatron_lora']}.{name}"
            yield Diagnostic(key, value, "is Megatron's key, which FSDP does not read", f"set it in {MODEL}")
    if s.lora_path and not s.lora_rank:
        yield s.error("lora_path", "is not loaded without a rank", f"set {KEYS['lora_rank']} to the adapter's")
    if s.lora_rank and not s.merges_lora and s.schedule == SEPARATE:
        message = f"with {SEPARATE} reaches no rollout: verl sends the base model without the adapter"
        yield s.error("lora_rank", message, f"set {KEYS['merges_lora']}=true")


def schedule_free(run: RunConfig) -> Findings:
    """Schedule-free AdamW runs with fsdp2 and without a second warm-up."""
    s = run.settings
    if not asked_for(s.optimizer_package):
        if s.optimizer == OPTIMIZER:
            message = f"needs optimizer_impl={PACKAGE}, and it is {s.optimizer_package}"
            yield s.error("optimizer", message, "take optim=schedulefree")
        return
    for name, wanted in (("optimizer", OPTIMIZER), ("strategy", "fsdp2"), ("lr_schedule", "constant")):
        if getattr(s, name) != wanted:
            yield s.error(name, f"must be {wanted} with optimizer_impl={PACKAGE}")
    for name, nothing in (("warmup_steps", "0"), ("warmup_ratio", "0.0")):
        if getattr(s, name) > 0:
            message = f"is verl's learning-rate warm-up, and {OPTIMIZER} has its own"
            warm_up = f"the warm-up is {KEYS['optimizer_warmup']}"
            yield s.error(name, message, f"set it to {nothing}; {warm_up}")
