"""Rules on settings that are valid on their own but inconsistent together: a function each, its sentence in @check.

They run on a configuration whose types are valid. Over 300 lines because there are many.
"""

import difflib
from collections.abc import Collection, Iterator, Sequence
from math import ceil

from rpg.config.check import check
from rpg.config.reward import is_ours
from rpg.config.run_config import RunConfig, logs_to
from rpg.config.settings import ACTOR, CORRECTION, KEYS, MODEL, OPTIM, OVERLONG, SAMPLER, Settings
from rpg.data.diagnostics import Diagnostic
from rpg.names import ADVANTAGES, KL_SCOPES, LOSSES, MOVING_REFERENCES
from rpg.registry.methods import AGGREGATION, BOUNDS
from rpg.verl_plugin.schedule_free import OPTIMIZER, PACKAGE, asked_for

USUAL_BETA = 1e-4  # rpg_trainer.yaml's default; methods with another coefficient do not change it
METRICS = ("acc", "score", "reward")  # keys that rpg.rewards returns, and verl's name of the reward
UNWEIGHTED = ("bypass_mode",)  # the loss of verl that has its own weights and ignores rollout_is_weights
BY_RESPONSE = ("sapo", "geo_mean")  # losses of verl that ignore loss_agg_mode: they average over responses
SEPARATE = "separate_async"
SOCKETS = "rpg.verl_plugin.rollout"  # keeps the weight transfers of two runs on one machine apart
PADS = "verl would pad the batch with made-up samples"
Found = Iterator[Diagnostic]


@check("mini-batches", "the mini-batch divides the batch; otherwise verl pads it with made-up samples")
def mini_batches(run: RunConfig) -> Found:
    s = run.settings
    if s.batch % s.mini_batch:
        remedy = "make one a multiple of the other, the mini-batch the smaller"
        yield s.wrong("mini_batch", f"does not divide {s.shown('batch')}; {PADS}", remedy)


@check("ranks", "the ranks divide the responses of a mini-batch; the sequence-parallel size divides the ranks")
def ranks(run: RunConfig) -> Found:
    s = run.settings
    devices = s.gpus * s.nodes
    if devices % s.sequence_parallel:
        yield s.wrong("sequence_parallel", f"does not divide {_devices(s)}")
    elif s.mini_batch * s.n % (devices // s.sequence_parallel):
        what = f"times {s.shown('n')} responses are not divided by the ranks ({s.gpus} x {s.nodes} GPUs / "
        yield s.wrong("mini_batch", f"{what}{s.sequence_parallel}); {PADS}", "raise it, or use fewer GPUs")


@check("rollout replicas", "tensor times data parallel size of a vLLM replica divides the GPUs")
def rollout_replicas(run: RunConfig) -> Found:
    s = run.settings
    if s.gpus * s.nodes % (s.tensor_parallel * s.data_parallel):
        yield s.wrong("tensor_parallel", f"x data_parallel_size={s.data_parallel} does not divide {_devices(s)}")


def _devices(s: Settings) -> str:
    return f"the {s.gpus} x {s.nodes} GPUs of trainer.n_gpus_per_node x trainer.nnodes"


@check("rollout's sockets", "actor and rollout use one socket name; otherwise each waits for the other")
def rollout_sockets(run: RunConfig) -> Found:
    s = run.settings
    if s.engine_module == SOCKETS != s.external_lib:
        yield s.wrong("external_lib", f"must be {SOCKETS}, as {KEYS['engine_module']} is", "set both or neither")
    if s.schedule == SEPARATE and s.external_lib == SOCKETS != s.engine_module:
        wrong = f"must be {SOCKETS} with {s.shown('schedule')}, as {KEYS['external_lib']} is"
        yield s.wrong("engine_module", wrong, "keep the recipe's value, or import that module in yours and set both")


@check("token budgets", "prompt plus response fits into every token budget")
def token_budgets(run: RunConfig) -> Found:
    s = run.settings
    length = s.prompt + s.response
    short = f"is below {KEYS['prompt']} + {KEYS['response']} = {s.prompt} + {s.response} tokens"
    budgets = (
        ("context", True, s.context),
        ("batched_tokens", not s.chunked_prefill, s.batched_tokens),
        ("actor_tokens", s.actor_packs, s.actor_tokens * s.sequence_parallel),
        ("log_prob_tokens", s.log_prob_packs, s.log_prob_tokens * s.sequence_parallel),
    )
    for name, applies, tokens in budgets:
        if applies and tokens is not None and tokens < length:
            yield s.wrong(name, short, "raise it, or shorten the lengths")


@check("overlong shaping", "the overlong buffer is complete, shorter than the response, and has the manager dapo")
def overlong_shaping(run: RunConfig) -> Found:
    s = run.settings
    if not s.overlong:
        return
    off = f"set {OVERLONG}.enable=false"
    if s.manager != "dapo":
        yield s.wrong("manager", f"does not read {OVERLONG}, which is enabled", f"use dapo, or {off}")
    elif s.longest != s.response:
        wrong = f"must be {s.shown('response')}, or the penalty begins at another length"
        yield s.wrong("longest", wrong, "remove the override")
    for name in ("overlong_len", "overlong_factor", "overlong_log"):
        if getattr(s, name) is None:
            yield s.wrong(name, "is needed by the overlong buffer")
    if s.overlong_len is not None and s.overlong_len >= s.response:
        wrong = f"is not below {s.shown('response')}: every response would be penalised"
        yield s.wrong("overlong_len", wrong, f"shorten it, or {off}")


@check("dynamic sampling", "filtering has a metric that the reward returns, and groups of two responses or more")
def dynamic_sampling(run: RunConfig) -> Found:
    s = run.settings
    if not s.filters:
        return
    if s.filter_metric is None:
        yield s.wrong("filter_metric", "is required for group filtering", "set it to acc")
    elif is_ours(s.reward) and s.filter_metric not in METRICS:
        wrong = f"is not returned by rpg.rewards, which returns {', '.join(METRICS[:2])}"
        yield s.wrong("filter_metric", wrong, _nearest(s.filter_metric, METRICS))
    if s.n == 1:
        wrong = f"with {s.shown('filters')} drops every group: one response has no variance"
        yield s.wrong("n", wrong, "use 2 or more responses, or disable the filter")


@check("resumption", "resume_from_path is set if, and only if, resume_mode is resume_path; verl ignores it otherwise")
def resumption(run: RunConfig) -> Found:
    s = run.settings
    if (s.resume_mode == "resume_path") != (s.resume_path is not None):
        remedy = "set trainer.resume_mode=resume_path and name a run's global_step_N directory, or remove both"
        yield s.wrong("resume_path", f"does not agree with {s.shown('resume_mode')}", remedy)


@check("saving", "checkpoints have the weights; they are saved as verl's FSDP does: neither asynchronously nor to HDFS")
def saving(run: RunConfig) -> Found:
    s = run.settings
    for name in ("save_contents", "load_contents"):
        contents = run.get(f"{ACTOR}.checkpoint.{name}")
        if isinstance(contents, list) and "model" not in contents:
            wrong = "lacks model: a run would resume at a later step with the initial weights"
            yield Diagnostic(f"{ACTOR}.checkpoint.{name}", contents, wrong, "add model")
    if s.saves_async is True:
        wrong = "is of Megatron: FSDP saves at once all the same, and verl then writes no tracker of the last"
        yield s.wrong("saves_async", f"{wrong} checkpoint", "remove it")
    if s.hdfs_directory is not None:
        yield s.wrong("hdfs_directory", "is not read by FSDP: verl copies no checkpoint there", "remove it")


@check("metrics file", "the run logs to metrics.jsonl, from which its progress and the stall limit are read")
def metrics_file(run: RunConfig) -> Found:
    loggers = run.get("trainer.logger")
    if not logs_to(loggers, "file"):
        wrong = "lacks file: without metrics.jsonl rpg.stall_limit would end the run"
        yield Diagnostic("trainer.logger", loggers, wrong, "add file")


@check("validation", "a run with val_only has val_before_train")
def validation(run: RunConfig) -> Found:
    s = run.settings
    if s.val_only and not s.val_before_train:
        wrong = f"with {s.shown('val_only')} would train: verl ends the run after that validation"
        yield s.wrong("val_before_train", wrong, "set it to true")


@check("loss name", "a loss name that begins with rpg is one of the twenty")
def loss_name(run: RunConfig) -> Found:
    s = run.settings
    if _misspelt(s.loss, LOSSES) and not run.get("rpg.external_lib"):
        yield s.wrong("loss", "is not an RPG loss", _nearest(s.loss, [*LOSSES]))


@check("estimator name", "an estimator name that begins with rpg is rpg or rpg_batchmean")
def estimator_name(run: RunConfig) -> Found:
    s = run.settings
    if _misspelt(s.estimator, ADVANTAGES) and not run.get("rpg.external_lib"):
        yield s.wrong("estimator", "is not registered", _nearest(s.estimator, ADVANTAGES))


def _misspelt(name: str, known: Collection[str]) -> bool:
    """Return whether a name that begins with rpg is unknown; verl_validation.py looks up others and the user's own."""
    return name.lower().startswith("rpg") and name not in known


def _nearest(name: str, known: Sequence[str]) -> str:
    return f"did you mean {difflib.get_close_matches(name.lower(), known, n=1, cutoff=0)[0]}?"


@check("Z_old", "z_old differs from 1 only with an unnormalised divergence")
def total_mass(run: RunConfig) -> Found:
    s = run.settings
    if s.z_old not in (None, 1.0) and s.loss in LOSSES and LOSSES[s.loss][0] in ("fkl", "rkl"):
        wrong = f"has no meaning for {s.loss}, defined between normalised policies"
        yield s.wrong("z_old", wrong, "set it to 1.0, or choose a ufkl or urkl loss")


@check("clip of the loss", "clip_scope and clip_branch are set only for a loss that reads them")
def clip_of_the_loss(run: RunConfig) -> Found:
    s = run.settings
    form = LOSSES[s.loss][1:] if s.loss in LOSSES else ()
    readers = (
        ("clip_scope", ("differentiable", "dual"), "rpg_DIVERGENCE"),
        ("clip_branch", ("reinforce", "ppo"), "rpg_rf_DIVERGENCE_clip_ppo"),
    )
    for name, reader, losses in readers:
        if getattr(s, name) is not None and form != reader:
            yield s.wrong(name, f"is not read by {s.shown('loss')}", f"remove it, or choose a loss {losses}")


@check("KL counted once", "verl's KL loss and KL in the reward are off, or have coefficient 0, beside an RPG loss")
def kl_counted_once(run: RunConfig) -> Found:
    s = run.settings
    remedy = f"set it to false; the strength of the KL is {KEYS['kl_coef']}"
    for name in ("kl_loss", "kl_in_reward"):
        if s.loss in LOSSES and getattr(s, name) and getattr(s, f"{name}_coef") != 0:
            beside = f"with {s.shown(f'{name}_coef')} beside {s.shown('loss')}"
            yield s.wrong(name, f"{beside} counts the KL twice: the RPG loss contains its own", remedy)


@check("beta reaches the loss", "a changed rpg.kl_coef is the coefficient that the loss uses")
def beta_reaches_the_loss(run: RunConfig) -> Found:
    s = run.settings
    if s.loss in LOSSES:
        used = s.kl_coef
        if used is None:
            wrong = f"is set, and {s.shown('beta')} does not reach it: the loss would take {USUAL_BETA}"
            yield s.wrong("loss", wrong, "choose the loss by method=rpg, rpg_rf or rpg_rf_clip_ppo")
    else:
        used = s.kl_loss_coef if s.kl_loss else s.kl_in_reward_coef if s.kl_in_reward else 0
    if s.beta not in (USUAL_BETA, used):
        wrong = (
            f"reaches no KL: an RPG loss takes {s.shown('kl_coef')}, another {s.shown('kl_loss_coef')} if "
            f"{KEYS['kl_loss']}, or {s.shown('kl_in_reward_coef')} if {KEYS['kl_in_reward']}"
        )
        yield s.wrong("beta", wrong, "remove it, or set that key", "warning")


@check("scope of the KL", "a changed rpg.kl_scope reaches an RPG loss, and the KL of responses has z_old 1")
def scope_of_the_kl(run: RunConfig) -> Found:
    s = run.settings
    used = s.loss_kl_scope or KL_SCOPES[0] if s.loss in LOSSES else None
    if s.kl_scope not in (KL_SCOPES[0], used):
        reason = "choose an rpg method" if used is None else f"set it by {KEYS['kl_scope']} alone"
        yield s.wrong("kl_scope", f"reaches no loss: {s.shown('loss')} takes {used or 'none'}", reason)
    if used == "response" and s.z_old not in (None, 1.0):
        yield s.wrong("z_old", "has no meaning for the KL of responses, between normalised policies", "set it to 1.0")


@check("reference", "the settings of pi_ref agree: mode, trigger, engine, adapter")
def reference(run: RunConfig) -> Found:
    s = run.settings
    mode = f"with {s.shown('reference')}"
    for name, wanted in (("every_k", "a number of optimizer steps"), ("kl_target", "nats per token")):
        if s.reference == name and getattr(s, name) is None:
            yield s.wrong(name, f"must be {wanted} {mode}")
        if s.reference != name and getattr(s, name) is not None:
            yield s.wrong(name, f"is not read {mode}", f"remove it, or use reference={name}")
    if s.reference == "old":
        return
    for name in ("strategy", "ref_strategy"):
        if getattr(s, name) != "fsdp2":
            yield s.wrong(name, f"must be fsdp2 {mode}")
    if s.ref_fsdp_size != s.actor_fsdp_size:
        wrong = f"must be the actor's {s.actor_fsdp_size} {mode}: each rank copies its own shards"
        yield s.wrong("ref_fsdp_size", wrong)
    if s.reference in MOVING_REFERENCES and s.lora_rank:
        wrong = f"{mode}: pi_ref of an adapter is the base model, which cannot be renewed"
        yield s.wrong("lora_rank", wrong, f"set it to 0, or {KEYS['reference']} to old or fixed")
    if s.lora_path:
        wrong = f"{mode}: pi_ref would be the base model, and the run begins with this adapter"
        yield s.wrong("lora_path", wrong, f"merge it into the model, or set {KEYS['reference']}=old")
    if not s.actor_packs and s.ref_micro_batch is None:
        yield s.wrong("ref_micro_batch", f"must be a number of sequences {mode}, as {KEYS['actor_packs']} is false")


@check("loss sees the reference", "the loss takes ref_log_prob if pi_ref is a separate model")
def loss_sees_the_reference(run: RunConfig) -> Found:
    """verl's own losses do not take it."""
    s = run.settings
    if s.reference != "old" and s.loss not in LOSSES:
        wrong = f"needs a loss that sees the reference, and {s.shown('loss')} does not"
        yield s.wrong("reference", wrong, f"choose an rpg loss, or set {KEYS['reference']}=old")


@check("bounds of the loss", "a loss of verl has its authors' bounds (a warning)")
def bounds_of_the_loss(run: RunConfig) -> Found:
    """verl's losses share clip_ratio_low and clip_ratio_high, which bound a different quantity in each."""
    bounds = BOUNDS.get(run.settings.loss)
    if bounds is None:
        return
    configured = {key: run.get(f"{ACTOR}.clip_ratio_{key}") for key in ("low", "high")}
    if configured == {"low": bounds.low, "high": bounds.high}:
        return
    wrong = (
        f"with {ACTOR}.clip_ratio_low={configured['low']:g} and clip_ratio_high={configured['high']:g}, which bound "
        f"{bounds.meaning}: its authors use {bounds.low:g} and {bounds.high:g} ({bounds.source})"
    )
    by_hand = f"set {ACTOR}.clip_ratio_low={bounds.low:g} and {ACTOR}.clip_ratio_high={bounds.high:g}"
    remedy = f"take method={bounds.method} with all of its settings, or {by_hand}" if bounds.method else by_hand
    yield run.settings.wrong("loss", wrong, remedy, "warning")


@check("aggregation of the loss", "the loss reads loss_agg_mode; divided by a length, it has a constant one (warnings)")
def aggregation_of_the_loss(run: RunConfig) -> Found:
    """Without a constant the gradient depends on how a mini-batch is split."""
    s = run.settings
    aggregation, factor = run.get(AGGREGATION), f"{ACTOR}.loss_scale_factor"
    if s.loss in BY_RESPONSE and aggregation != "seq-mean-token-mean":
        wrong = f"is not read by {s.shown('loss')}, which verl averages over responses, each with the same weight"
        yield Diagnostic(AGGREGATION, aggregation, wrong, "set it to seq-mean-token-mean", "warning")
    elif aggregation == "seq-mean-token-sum-norm" and run.get(factor) is None:
        wrong = f"with {AGGREGATION}={aggregation}: verl divides by each micro-batch's longest response"
        yield Diagnostic(factor, None, wrong, f"set it, for example to {s.response}", "warning")


@check("LoRA", "the adapter is trained, and the rollouts use it")
def lora(run: RunConfig) -> Found:
    """verl's FSDP engine reads only lora_rank; trainer and rollouts also read lora.rank."""
    s = run.settings
    if s.megatron_rank:
        wrong = f"is Megatron's key: with {s.strategy} no adapter would be trained"
        yield s.wrong("megatron_rank", wrong, f"set {MODEL}.lora_rank")
    if s.lora_path and not s.lora_rank:
        yield s.wrong("lora_path", "is not loaded without a rank", f"set {MODEL}.lora_rank to the adapter's")
    if s.lora_rank and not s.merges_lora and s.schedule == SEPARATE:
        wrong = f"with {SEPARATE} reaches no rollout: verl sends the base model without the adapter"
        yield s.wrong("lora_rank", wrong, f"set {MODEL}.lora.merge=true")


@check("schedule-free", "schedule-free AdamW runs with fsdp2 and without a second warm-up")
def schedule_free(run: RunConfig) -> Found:
    s = run.settings
    if not asked_for(s.optimizer_package):
        if s.optimizer == OPTIMIZER:
            wrong = f"needs optimizer_impl={PACKAGE}, and it is {s.optimizer_package}"
            yield s.wrong("optimizer", wrong, "take optim=schedulefree")
        return
    for name, wanted in (("optimizer", OPTIMIZER), ("strategy", "fsdp2"), ("lr_schedule", "constant")):
        if getattr(s, name) != wanted:
            yield s.wrong(name, f"must be {wanted} with optimizer_impl={PACKAGE}")
    for name, nothing in (("warmup_steps", "0"), ("warmup_ratio", "0.0")):
        if getattr(s, name) > 0:
            wrong = f"is verl's learning-rate warm-up, and {OPTIMIZER} has its own"
            warm_up = f"the warm-up is {OPTIM}.override_optimizer_config.warmup_steps"
            yield s.wrong(name, wrong, f"set it to {nothing}; {warm_up}")


def pi_old_of(s: Settings) -> str:
    """Return the pi_old that verl's keys select, regardless of rpg.pi_old."""
    return "behavior" if s.bypass else "recomputed" if s.weight is None else "decoupled"


@check("pi_old", "rpg.pi_old agrees with verl's keys, and the importance weights reach the loss")
def pi_old(run: RunConfig) -> Found:
    """verl silently skips weights without log-probs or threshold (PPOTrainer._compute_advantage)."""
    s = run.settings
    selected = pi_old_of(s)
    if s.pi_old not in (None, selected):
        wrong = f"is not what {s.shown('bypass')} with {s.shown('weight')} do"
        yield s.wrong("pi_old", wrong, f"use the group, pi_old={s.pi_old}")
    if s.bypass and s.weight is not None:
        wrong = f"is not read with {s.shown('bypass')}: the ratio to the rollout policy already is the weight"
        yield s.wrong("weight", wrong, "use pi_old=behavior or pi_old=decoupled")
    if not s.keeps_log_probs and selected != "recomputed":
        wrong = "leaves pi_old without the log-probs of the rollout policy"
        yield s.wrong("keeps_log_probs", wrong, "set it to true")
    if s.weight_threshold is None and selected == "decoupled":
        wrong = f"with {s.shown('weight')} leaves the weights out: verl computes none without a threshold"
        remedy = "set it to 2.0, or a large number for weights that are never truncated"
        yield s.wrong("weight_threshold", wrong, remedy)
    if s.loss in UNWEIGHTED and selected == "decoupled":
        wrong = f"does not multiply with the weights of {s.shown('weight')}"
        yield s.wrong("loss", wrong, f"choose another loss, or set {KEYS['weight']}=null")


@check("rejection sampling", "rollout_rs has a threshold and takes effect")
def rejection_sampling(run: RunConfig) -> Found:
    s = run.settings
    if s.rejection is None:
        return
    if s.rejection_threshold is None:
        remedy = "set one for all criteria, or one for each, separated by commas"
        yield s.wrong("rejection_threshold", f"is needed by {s.shown('rejection')}", remedy)
    if s.bypass:
        wrong = f"is not read with {CORRECTION}.bypass_mode=true: there is no second policy to compare with the"
        yield s.wrong("rejection", f"{wrong} rollout policy", "use pi_old=recomputed or pi_old=decoupled")
    elif not s.keeps_log_probs:
        wrong = f"leaves {s.shown('rejection')} out: verl lacks the log-probs of the rollout policy"
        yield s.wrong("keeps_log_probs", wrong, "set it to true")


@check("asynchronous pi_old", "an RPG loss on asynchronous rollouts uses recomputed only if that is set")
def asynchronous_pi_old(run: RunConfig) -> Found:
    """Otherwise the weight from rollout policy to recomputed policy is silently missing."""
    s = run.settings
    if s.schedule != "sync" and s.pi_old != "recomputed" and pi_old_of(s) == "recomputed":
        wrong = (
            f"trains on samples of older policies with pi_old recomputed: the gradient of {s.loss} would be biased in "
            "proportion to their age (docs/off-policy.md)"
        )
        remedy = (
            "choose pi_old=behavior (the rollout policy; without a clip), pi_old=decoupled (recomputed, weighted; "
            "with a clip), pi_old=recomputed by that name, or schedule=sync"
        )
        yield s.wrong("schedule", wrong, remedy, "error" if s.loss in LOSSES else "warning")


@check("staleness", "the age limit of responses allows for the batches that rollouts are ahead")
def staleness(run: RunConfig) -> Found:
    """verl counts the step that requested a prompt and the step that trains on it (ReplayBufferAsync)."""
    s = run.settings
    for name, mode in (("ahead_colocated", "colocate_async"), ("ahead_separate", SEPARATE)):
        drops = s.schedule == mode and s.too_old == "drop" and s.oldest is not None
        if drops and ceil(getattr(s, name)) + 1 > s.oldest:  # type: ignore[operator]
            wrong = f"makes every response older than {s.shown('oldest')} when it is trained on: all would be dropped"
            yield s.wrong(name, wrong, f"lower it, or raise {SAMPLER}_threshold")


@check("separate rollouts", "rollouts use all of their own GPUs; actor and reference share one fsdp2 process")
def separate_rollouts(run: RunConfig) -> Found:
    """verl asserts the other conditions after Ray has started (PPOTrainerSeparateAsync.__init__)."""
    s = run.settings
    if s.schedule != SEPARATE:
        return
    separately, replica = f"with {s.shown('schedule')}", s.tensor_parallel * s.data_parallel
    if s.rollout_gpus % replica and replica % max(1, s.rollout_gpus):
        wrong = f"is not a whole number of vLLM replicas of {s.tensor_parallel} x {s.data_parallel} GPUs"
        yield s.wrong("rollout_gpus", f"{wrong} ({KEYS['tensor_parallel']}, {KEYS['data_parallel']})")
    if s.strategy != "fsdp2":
        yield s.wrong("strategy", f"must be fsdp2 {separately}")
    if s.hybrid is False and s.reference != "old":
        wrong = f"{separately} puts the reference into another process than the actor ({s.shown('reference')})"
        yield s.wrong("hybrid", wrong, f"set it to true, or {KEYS['reference']}=old")
