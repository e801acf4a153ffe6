"""Checks of pi_old and the asynchronous schedules (docs/off-policy.md), whose faults would silently bias the gradient.

The group `pi_old` decides verl's keys, so that they agree (compose.py).
"""

from math import ceil

from rpg.checks.loss import LOSS_MODE
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import CORRECTION, LOSS, MODEL, ROLLOUT, SEPARATE
from rpg.diagnostics import Findings
from rpg.names import LOSSES, MOVING_REFERENCES

SCHEDULE = "trainer.v1.trainer_mode"
OVER_THE_BATCH = ("rpg_batchmean", "reinforce_plus_plus", "reinforce_plus_plus_baseline")  # in their statistics
UNCUT = 100.0  # threshold of a response's weight that few reach


def pi_old_of(run: RunConfig) -> str:
    """Return the pi_old that verl's keys select; rpg.pi_old is null where none was chosen by name."""
    if run[f"{CORRECTION}.bypass_mode"]:
        return "behavior"
    return "recomputed" if run[f"{CORRECTION}.rollout_is"] is None else "decoupled"


def weights(run: RunConfig) -> Findings:
    """Importance weights have a threshold and reach the loss; verl silently skips them otherwise."""
    threshold = f"{CORRECTION}.rollout_is_threshold"
    if pi_old_of(run) == "decoupled" and run[threshold] is None:
        message = f"with {run.shown(f'{CORRECTION}.rollout_is')} leaves the weights out: verl computes none without it"
        yield run.error(threshold, message, "set it to 2.0, or a large number for weights that are never truncated")
    if pi_old_of(run) == "decoupled" and run[LOSS_MODE] == "bypass_mode":  # verl's, which has its own weights
        yield run.error(LOSS_MODE, f"ignores the weights of {run.shown(f'{CORRECTION}.rollout_is')}", "choose another")


def rejection_sampling(run: RunConfig) -> Findings:
    """rollout_rs takes effect, and does not leave tokens out of a KL of responses."""
    rejection, threshold = f"{CORRECTION}.rollout_rs", f"{CORRECTION}.rollout_rs_threshold"
    if run[rejection] is None:
        return
    if run[threshold] is None:
        yield run.error(threshold, f"is needed by {run.shown(rejection)}", "set one for all criteria, or one for each")
    if run[f"{LOSS}.kl_scope"] == "response" and run.rpg.reference.mode != "old" and "token_" in run[rejection]:
        message = f"leaves tokens out of the sums over a response ({LOSS}.kl_scope=response): their sign may change"
        yield run.error(rejection, message, "reject sequences (seq_...), or use rpg.kl_scope=token")
    if run[f"{CORRECTION}.bypass_mode"]:
        message = "is not read with pi_old=behavior: there is no second policy to compare with the rollout policy"
        yield run.error(rejection, message, "use pi_old=recomputed or pi_old=decoupled")
    elif not run[f"{ROLLOUT}.calculate_log_probs"]:
        message = f"leaves {run.shown(rejection)} out: verl lacks the log-probs of the rollout policy"
        yield run.error(f"{ROLLOUT}.calculate_log_probs", message, "set it to true")


def asynchronous_pi_old(run: RunConfig) -> Findings:
    """An RPG loss on asynchronous rollouts uses recomputed only if that is chosen by name.

    Otherwise the weight from rollout policy to recomputed policy is silently missing.
    """
    if run[SCHEDULE] != "sync" and run.rpg.pi_old is None and pi_old_of(run) == "recomputed":
        message = (
            f"trains on samples of older policies with pi_old recomputed: the gradient of {run[LOSS_MODE]} would be "
            "biased in proportion to their age (docs/off-policy.md)"
        )
        remedy = (
            "choose pi_old=behavior (the rollout policy; without a clip), pi_old=decoupled (recomputed, weighted; "
            "with a clip), pi_old=recomputed by that name, or schedule=sync"
        )
        yield run.error(SCHEDULE, message, remedy, "error" if run[LOSS_MODE] in LOSSES else "warning")


def kl_of_stale_responses(run: RunConfig) -> Findings:
    """The sums of rpg.kl_scope=response over a response are over samples of pi_old.

    The weight of a token, a / mu, is not in the sums over the other tokens: with staleness 1 the error of the forward
    KL's gradient is 1.3 times that gradient, that of kl_scope=token 0.4 times.
    """
    of_responses = run[LOSS_MODE] in LOSSES and run[f"{LOSS}.kl_scope"] == "response"
    if not of_responses or run[SCHEDULE] == "sync" or pi_old_of(run) == "behavior":
        return
    weight, threshold = f"{CORRECTION}.rollout_is", f"{CORRECTION}.rollout_is_threshold"
    limit = run[threshold] if run[weight] == "sequence" and not isinstance(run[threshold], str) else 0
    if not limit:
        message = f"with {run.shown(SCHEDULE)}: other policies than pi_old sampled the tokens that the KL sums"
        remedy = f"use pi_old=behavior, pi_old=decoupled_sequence with {threshold}={UNCUT:g}, or rpg.kl_scope=token"
        yield run.error("rpg.kl_scope", message, remedy)
    elif limit < UNCUT:
        message = "cuts weights of responses, and so leaves the gradient of rpg.kl_scope=response biased"
        yield run.error(threshold, message, f"set it to {UNCUT:g}, or use pi_old=behavior", "warning")


def staleness(run: RunConfig) -> Findings:
    """The age limit of responses allows for the batches that rollouts are ahead; else all would be dropped for ever.

    verl counts the step that requested a prompt and the step that trains on it (ReplayBufferAsync).
    """
    oldest = run["trainer.v1.sampler.max_off_policy_threshold"]
    ahead = f"trainer.v1.{run[SCHEDULE]}.num_warmup_batches"
    if run[SCHEDULE] == "sync" or run["trainer.v1.sampler.max_off_policy_strategy"] != "drop" or oldest is None:
        return
    if ceil(run[ahead]) + 1 > oldest:
        limit = run.shown("trainer.v1.sampler.max_off_policy_threshold")
        yield run.error(ahead, f"makes every response older than {limit}: all would be dropped", "lower it")


def separate_rollouts(run: RunConfig) -> Findings:
    """With separate rollouts, of which verl trains a batch part by part, nothing changes in the middle of a batch."""
    if run[SCHEDULE] != SEPARATE:
        return
    separately = f"with {run.shown(SCHEDULE)}"
    if run.rpg.reference.mode in MOVING_REFERENCES:
        message = f"{separately} would be renewed in the middle of a batch"
        yield run.error("rpg.reference.mode", message, "set it to old or fixed, or take schedule=async")
    if run["algorithm.adv_estimator"] in OVER_THE_BATCH:
        message = f"{separately} takes its mean over a part of the batch"
        yield run.error("algorithm.adv_estimator", message, "take schedule=async, or another estimator", "warning")
    if run["actor_rollout_ref.hybrid_engine"] is False and run.rpg.reference.mode != "old":
        message = f"{separately} puts the reference into another process than the actor"
        yield run.error("actor_rollout_ref.hybrid_engine", message, "set it to true, or use reference=old")
    if run[f"{MODEL}.lora_rank"] and not run[f"{MODEL}.lora.merge"]:
        message = f"{separately} reaches no rollout: verl sends the base model without the adapter"
        yield run.error(f"{MODEL}.lora_rank", message, f"set {MODEL}.lora.merge=true")


WHOLE = {  # settings of the sampler, with the values that leave the distribution the policy's; null: not set
    f"{ROLLOUT}.top_p": (1,),
    f"{ROLLOUT}.top_k": (-1, 0),
    f"{ROLLOUT}.engine_kwargs.vllm.logits_processors": (None, []),
    f"{ROLLOUT}.engine_kwargs.sglang.preferred_sampling_params": (None, {}, ""),
}


def sampled_distribution(run: RunConfig) -> Findings:
    """Rollouts are sampled from the whole policy, or rpg.truncated_sampling accepts that they are not.

    The rollouts' log-probs are those of the distribution that was sampled.
    """
    if run["trainer.val_only"]:
        return
    changed = [key for key, whole in WHOLE.items() if run[key] not in whole]
    for key in changed if not run.rpg.truncated_sampling else ():
        weight = "" if pi_old_of(run) == "recomputed" else ", and pi / mu starts at that mass instead of 1"
        message = (
            "samples another distribution than the policy that is trained: tokens left out get no gradient, baseline "
            f"and KL move the mass of the others{weight} (docs/off-policy.md)"
        )
        yield run.error(key, message, "remove it, or accept it by rpg.truncated_sampling=true")
    of_vllm = f"{ROLLOUT}.engine_kwargs.vllm.logprobs_mode"  # wins over verl's key
    key = f"{ROLLOUT}.logprobs_mode" if run[of_vllm] is None else of_vllm
    is_equal = run[key] == "raw_logprobs" and run[f"{ROLLOUT}.temperature"] == 1 and not changed
    if run[f"{ROLLOUT}.calculate_log_probs"] and run[key] != "processed_logprobs" and not is_equal:
        message = "gives other numbers than the log-probs of the distribution that was sampled"
        yield run.error(key, message, "set it to processed_logprobs")
