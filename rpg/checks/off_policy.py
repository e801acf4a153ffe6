"""Checks of pi_old and the asynchronous schedules (docs/off-policy.md), whose faults would silently bias the gradient.

The group `pi_old` decides verl's keys, so that they agree (compose.py).
"""

from rpg.checks.loss import ESTIMATOR, LOSS_MODE
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import CORRECTION, LOSS, MODEL, ROLLOUT, SEPARATE
from rpg.diagnostics import Findings, shown
from rpg.names import LOSSES, MOVING_REFERENCES

SCHEDULE, SAMPLER = "trainer.v1.trainer_mode", "trainer.v1.sampler.max_off_policy"
WEIGHT, THRESHOLD, REJECTION = (f"{CORRECTION}.{name}" for name in ("rollout_is", "rollout_is_threshold", "rollout_rs"))
OVER_THE_BATCH = ("rpg_batchmean", "reinforce_plus_plus", "reinforce_plus_plus_baseline")  # in their statistics
UNCUT = 100.0  # threshold of a response's weight that few reach


def pi_old_of(run: RunConfig) -> str:
    """Return the pi_old that verl's keys select; rpg.pi_old is null where none was chosen by name."""
    if run[f"{CORRECTION}.bypass_mode"]:
        return "behavior"
    return "recomputed" if run[WEIGHT] is None else "decoupled"


def corrections(run: RunConfig) -> Findings:
    """Importance weights and rejection take effect, and leave no tokens out of a KL of responses."""
    log_probs = f"{ROLLOUT}.calculate_log_probs"
    if pi_old_of(run) == "decoupled" and run[THRESHOLD] is None:
        yield run.error(THRESHOLD, f"disables the weights of {run.shown(WEIGHT)}", "set it to 2.0, or a large number")
    of_tokens = run[REJECTION] is not None and "token_" in run[REJECTION]
    if of_tokens and run[f"{LOSS}.kl_scope"] == "response" and run.rpg.reference.mode != "old":
        message = "rejects single tokens, which the sums of rpg.kl_scope=response need"
        yield run.error(REJECTION, message, "reject sequences (seq_...), or use rpg.kl_scope=token")
    has_both = run[log_probs] and not run[f"{CORRECTION}.bypass_mode"]
    if run[f"{REJECTION}_threshold"] is not None and run[REJECTION] is None:
        yield run.error(f"{REJECTION}_threshold", f"is not read without {REJECTION}", "set both, or none")
    for key in (WEIGHT, REJECTION):
        if run[key] is not None and not has_both:
            message = "needs the log-probs of pi_old and of the rollout policy, else verl ignores it"
            yield run.error(key, message, f"use pi_old=recomputed or decoupled, and {log_probs}=true")


def recomputed_pi_old(run: RunConfig) -> Findings:
    """An RPG loss on rollouts of an older or quantised policy uses recomputed only if that is chosen by name.

    Otherwise the weight from rollout policy to recomputed policy is silently missing.
    """
    causes = {SCHEDULE: ("sync", "the age of the samples"), f"{ROLLOUT}.quantization": (None, "vLLM's rounding")}
    for key, (usual, cause) in causes.items():
        if run[key] != usual and run.rpg.pi_old is None and pi_old_of(run) == "recomputed":
            message = f"with pi_old recomputed biases the gradient by {cause} (docs/off-policy.md)"
            choices = "behavior (without a clip), decoupled (with one) or recomputed"
            level = "error" if run[LOSS_MODE] in LOSSES else "warning"
            yield run.error(key, message, f"choose pi_old={choices} by name, or set it to {shown(usual)}", level)


def stale_responses(run: RunConfig) -> Findings:
    """Sums of rpg.kl_scope=response are over samples of pi_old, and the age limit leaves responses to train on.

    The weight of a token, a / mu, is not in the sums over the other tokens: with staleness 1 the error of the forward
    KL's gradient is 1.3 times that gradient, that of kl_scope=token 0.4 times. verl counts the step that requested a
    prompt and the step that trains on it (ReplayBufferAsync), and drops older ones for ever.
    """
    if run[SCHEDULE] == "sync":
        return
    limit = run[THRESHOLD] if run[WEIGHT] == "sequence" and not isinstance(run[THRESHOLD], str) else 0
    of_responses = run[LOSS_MODE] in LOSSES and run[f"{LOSS}.kl_scope"] == "response"
    if of_responses and pi_old_of(run) != "behavior" and (limit or 0) < UNCUT:
        message = f"sums over tokens that pi_old did not sample ({run.shown(SCHEDULE)})"
        remedy = f"use pi_old=behavior, pi_old=decoupled_sequence with {THRESHOLD}={UNCUT:g}, or rpg.kl_scope=token"
        yield run.error("rpg.kl_scope", message, remedy)
    ahead = f"trainer.v1.{run[SCHEDULE]}.num_warmup_batches"
    oldest = run[f"{SAMPLER}_threshold"] if run[f"{SAMPLER}_strategy"] == "drop" else None
    if oldest is not None and run[ahead] + 1 > oldest:
        yield run.error(ahead, f"makes responses older than {SAMPLER}_threshold={oldest}: all are dropped", "lower it")


def separate_rollouts(run: RunConfig) -> Findings:
    """With separate rollouts, of which verl trains a batch part by part, nothing changes in the middle of a batch."""
    if run[SCHEDULE] != SEPARATE:
        return
    if run.rpg.reference.mode in MOVING_REFERENCES:
        message = "would renew pi_ref in the middle of a batch"
        yield run.error("rpg.reference.mode", message, "use reference=old or fixed, or schedule=async")
    if run[ESTIMATOR] in OVER_THE_BATCH:
        yield run.error(ESTIMATOR, "computes its mean over a part of the batch", "use schedule=async", "warning")
    if run[f"{MODEL}.lora_rank"] and not run[f"{MODEL}.lora.merge"]:
        yield run.error(f"{MODEL}.lora_rank", "is not sent to separate rollouts", f"set {MODEL}.lora.merge=true")


WHOLE = {  # settings of the sampler, with the values that leave the distribution the policy's; null: not set
    f"{ROLLOUT}.top_p": (1,),
    f"{ROLLOUT}.top_k": (-1, 0),
    f"{ROLLOUT}.engine_kwargs.vllm.logits_processors": (None, []),
}


def sampled_distribution(run: RunConfig) -> Findings:
    """Rollouts are sampled from the whole policy, or rpg.truncated_sampling accepts that they are not.

    The rollouts' log-probs are those of the distribution that was sampled.
    """
    if run["trainer.val_only"]:
        return
    changed = [key for key, whole in WHOLE.items() if run[key] not in whole]
    for key in changed if not run.rpg.truncated_sampling else ():
        weight = "" if pi_old_of(run) == "recomputed" else ", and pi / mu starts below 1"
        message = f"samples from another distribution than the trained policy{weight} (docs/off-policy.md)"
        yield run.error(key, message, "remove it, or accept the bias with rpg.truncated_sampling=true")
    of_vllm = f"{ROLLOUT}.engine_kwargs.vllm.logprobs_mode"  # wins over verl's key
    key = f"{ROLLOUT}.logprobs_mode" if run[of_vllm] is None else of_vllm
    is_equal = run[key] == "raw_logprobs" and run[f"{ROLLOUT}.temperature"] == 1 and not changed
    if run[f"{ROLLOUT}.calculate_log_probs"] and run[key] != "processed_logprobs" and not is_equal:
        yield run.error(key, "does not return the log-probs that were sampled", "set it to processed_logprobs")
