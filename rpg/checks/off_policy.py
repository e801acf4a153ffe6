"""Checks of pi_old and the asynchronous schedules (docs/off-policy.md)."""

from math import ceil

from rpg.config.keys import KEYS, SEPARATE, Settings
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Findings
from rpg.names import LOSSES, MOVING_REFERENCES, REVERSE

OVER_THE_BATCH = ("rpg_batchmean", "reinforce_plus_plus", "reinforce_plus_plus_baseline")  # in their statistics
UNCUT = 100.0  # threshold of a response's weight that few reach
WHOLE = {  # settings of the sampler, with the values that leave the distribution the policy's; null: not set
    "top_p": (1,), "top_k": (-1, 0), "vllm_processors": (None, []), "sglang_sampling": (None, {}, ""),
}  # fmt: skip
UNWEIGHTED = ("bypass_mode",)  # the loss of verl that has its own weights and ignores rollout_is_weights


def pi_old_of(s: Settings) -> str:
    """Return the pi_old that verl's keys select, regardless of rpg.pi_old."""
    return "behavior" if s.bypass else "recomputed" if s.weight is None else "decoupled"


def sampled_distribution(run: RunConfig) -> Findings:
    """Rollouts are sampled from the whole policy, or rpg.truncated_sampling accepts that they are not.

    The rollouts' log-probs are those of the distribution that was sampled.
    """
    s = run.settings
    if s.val_only:
        return
    changed = [name for name, whole in WHOLE.items() if getattr(s, name) not in whole]
    for name in changed if not s.truncated_sampling else ():
        weight = "" if pi_old_of(s) == "recomputed" else ", and pi / mu starts at that mass instead of 1"
        message = (
            "samples another distribution than the policy that is trained: tokens left out get no gradient, baseline "
            f"and KL move the mass of the others{weight} (docs/off-policy.md)"
        )
        yield s.error(name, message, f"remove it, or accept it by {KEYS['truncated_sampling']}=true")
    name = "log_probs_of" if s.vllm_log_probs_of is None else "vllm_log_probs_of"
    is_equal = getattr(s, name) == "raw_logprobs" and s.temperature == 1 and not changed
    if s.keeps_log_probs and getattr(s, name) != "processed_logprobs" and not is_equal:
        message = "gives other numbers than the log-probs of the distribution that was sampled"
        yield s.error(name, message, "set it to processed_logprobs")


def pi_old(run: RunConfig) -> Findings:
    """rpg.pi_old agrees with verl's keys, and the importance weights reach the loss.

    verl silently skips weights without log-probs or threshold (PPOTrainer._compute_advantage).
    """
    s = run.settings
    selected = pi_old_of(s)
    if s.pi_old not in (None, selected):
        message = f"contradicts {s.shown('bypass')} with {s.shown('weight')}"
        yield s.error("pi_old", message, f"use the group, pi_old={s.pi_old}")
    if s.bypass and s.weight is not None:
        message = f"is not read with {s.shown('bypass')}: the ratio to the rollout policy already is the weight"
        yield s.error("weight", message, "use pi_old=behavior or pi_old=decoupled")
    if not s.keeps_log_probs and selected != "recomputed":
        message = "leaves pi_old without the log-probs of the rollout policy"
        yield s.error("keeps_log_probs", message, "set it to true")
    if s.weight_threshold is None and selected == "decoupled":
        message = f"with {s.shown('weight')} leaves the weights out: verl computes none without a threshold"
        remedy = "set it to 2.0, or a large number for weights that are never truncated"
        yield s.error("weight_threshold", message, remedy)
    if s.loss in UNWEIGHTED and selected == "decoupled":
        message = f"ignores the weights of {s.shown('weight')}"
        yield s.error("loss", message, f"choose another loss, or set {KEYS['weight']}=null")


def rejection_sampling(run: RunConfig) -> Findings:
    """rollout_rs has a threshold and takes effect."""
    s = run.settings
    if s.rejection is None:
        return
    if s.rejection_threshold is None:
        remedy = "set one for all criteria, or one for each, separated by commas"
        yield s.error("rejection_threshold", f"is needed by {s.shown('rejection')}", remedy)
    if s.loss_kl_scope == "response" and s.reference != "old" and "token_" in s.rejection:
        message = f"leaves tokens out of the sums over a response ({s.shown('loss_kl_scope')}): their sign may change"
        yield s.error("rejection", message, "reject sequences (seq_...), or use rpg.kl_scope=token")
    if s.bypass:
        message = f"is not read with {KEYS['bypass']}=true: there is no second policy to compare with the"
        yield s.error("rejection", f"{message} rollout policy", "use pi_old=recomputed or pi_old=decoupled")
    elif not s.keeps_log_probs:
        message = f"leaves {s.shown('rejection')} out: verl lacks the log-probs of the rollout policy"
        yield s.error("keeps_log_probs", message, "set it to true")


def asynchronous_pi_old(run: RunConfig) -> Findings:
    """An RPG loss on asynchronous rollouts uses recomputed only if that is set.

    Otherwise the weight from rollout policy to recomputed policy is silently missing.
    """
    s = run.settings
    if s.schedule != "sync" and s.pi_old != "recomputed" and pi_old_of(s) == "recomputed":
        message = (
            f"trains on samples of older policies with pi_old recomputed: the gradient of {s.loss} would be biased in "
            "proportion to their age (docs/off-policy.md)"
        )
        remedy = (
            "choose pi_old=behavior (the rollout policy; without a clip), pi_old=decoupled (recomputed, weighted; "
            "with a clip), pi_old=recomputed by that name, or schedule=sync"
        )
        yield s.finding("schedule", message, remedy, "error" if s.loss in LOSSES else "warning")


def kl_of_responses(run: RunConfig) -> Findings:
    """rpg.kl_scope=response has an effect, and its sums over a response are over samples of pi_old.

    The weight of a token, a / mu, is not in the sums over the other tokens: with staleness 1 the error of the forward
    KL's gradient is 1.3 times that gradient, that of kl_scope=token 0.4 times.
    """
    s = run.settings
    if s.loss not in LOSSES or s.loss_kl_scope != "response":
        return
    if s.reference == "old" and LOSSES[s.loss][0] not in REVERSE:
        message = f"has no effect with {s.shown('reference')}: there a forward KL of responses is that of tokens"
        yield s.error("kl_scope", message, "leave it out, or use reference=fixed")
    elif s.schedule != "sync" and pi_old_of(s) != "behavior":
        limit = s.weight_threshold if s.weight == "sequence" and not isinstance(s.weight_threshold, str) else 0
        if not limit:
            sampled = "other policies than pi_old sampled the tokens that the KL of a response sums"
            uncut = f"{KEYS['weight']}=sequence with {KEYS['weight_threshold']}={UNCUT:g}"
            remedy = f"use pi_old=behavior, {uncut}, or rpg.kl_scope=token"
            yield s.error("kl_scope", f"with {s.shown('schedule')}: {sampled}", remedy)
        elif limit < UNCUT:
            message = f"cuts weights of responses, and so leaves the gradient of {s.shown('kl_scope')} biased"
            yield s.finding("weight_threshold", message, f"set it to {UNCUT:g}, or use pi_old=behavior", "warning")


def staleness(run: RunConfig) -> Findings:
    """The age limit of responses allows for the batches that rollouts are ahead.

    verl counts the step that requested a prompt and the step that trains on it (ReplayBufferAsync).
    """
    s = run.settings
    for name, mode in (("ahead_colocated", "colocate_async"), ("ahead_separate", SEPARATE)):
        drops = s.schedule == mode and s.too_old == "drop" and s.oldest is not None
        if drops and ceil(getattr(s, name)) + 1 > s.oldest:  # type: ignore[operator]
            message = f"makes every response older than {s.shown('oldest')} when it is trained on: all would be dropped"
            yield s.error(name, message, f"lower it, or raise {KEYS['oldest']}")


def separate_rollouts(run: RunConfig) -> Findings:
    """Rollouts use all of their own GPUs; actor and reference share one fsdp2 process.

    verl asserts the other conditions after Ray has started (PPOTrainerSeparateAsync.__init__).
    """
    s = run.settings
    if s.schedule != SEPARATE:
        return
    separately, replica = f"with {s.shown('schedule')}", s.tensor_parallel * s.data_parallel
    if s.rollout_gpus % replica and replica % max(1, s.rollout_gpus):
        message = f"is not a whole number of vLLM replicas of {s.tensor_parallel} x {s.data_parallel} GPUs"
        yield s.error("rollout_gpus", f"{message} ({KEYS['tensor_parallel']}, {KEYS['data_parallel']})")
    if s.strategy != "fsdp2":
        yield s.error("strategy", f"must be fsdp2 {separately}")
    if s.reference in MOVING_REFERENCES:
        message = f"{separately} would be renewed in the middle of a batch, of which verl trains one part after another"
        yield s.error("reference", message, "set it to old or fixed, or take schedule=async")
    if s.estimator in OVER_THE_BATCH:
        message = f"{separately} takes its mean over {s.mini_batch} prompts: verl trains a batch part by part"
        yield s.finding("estimator", message, "take schedule=async, or another estimator", "warning")
    if s.hybrid is False and s.reference != "old":
        message = f"{separately} puts the reference into another process than the actor ({s.shown('reference')})"
        yield s.error("hybrid", message, f"set it to true, or {KEYS['reference']}=old")
