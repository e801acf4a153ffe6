"""Checks of loss, advantages, KL and reference, whose faults would silently train something else."""

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, CORRECTION, FSDP, LOSS, MODEL, OPTIM, ROLLOUT, SEPARATE
from rpg.diagnostics import Findings
from rpg.names import CLIP_BRANCHES, CLIP_SCOPES, LOSSES, MOVING_REFERENCES, RHO_BOUND
from rpg.verl_plugin.schedule_free import OPTIMIZER, asked_for

WITH_GROUPS = ("rpg", "grpo", "rloo", "opo", "gpg")  # estimators whose baseline is 0 in a group of one
# what verl's losses read, if not all
CLIPS = dict.fromkeys(("sapo", "gpg", "dro", "kl_cov"), "none") | dict.fromkeys(
    ("gspo", "cispo", "clip_cov", "geo_mean"), "hard"
)
BATCH, MINI_BATCH, N = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n"
LOSS_MODE, REFERENCE, ESTIMATOR = f"{LOSS}.loss_mode", "rpg.reference.mode", "algorithm.adv_estimator"


def read_by_the_loss(run: RunConfig) -> Findings:
    """The loss reads each setting of its clip and KL that is changed, and an RPG loss one KL, of a recorded beta."""
    divergence, estimator, clip = LOSSES.get(run[LOSS_MODE], ("", "", CLIPS.get(run[LOSS_MODE], "ppo")))
    rule = run[f"{LOSS}.clip_scope"] or CLIP_SCOPES[0] if estimator == "differentiable" else clip
    of_responses, mode = run[f"{LOSS}.kl_scope"] == "response", run.rpg.reference.mode
    is_forward = divergence in ("fkl", "ufkl")  # whose KL of pi_ref = pi_old is that of its tokens
    reads = {  # key: whether it is read, and the values that change nothing
        f"{LOSS}.clip_scope": (estimator == "differentiable", (None,)),
        f"{LOSS}.clip_branch": (clip == "ppo", (None, CLIP_BRANCHES[0])),
        f"{LOSS}.z_old": (divergence in ("ufkl", "urkl") and not of_responses, (None, 1.0)),
        "rpg.kl_scope": (not is_forward or mode != "old", ("token",)),
        "rpg.rho_bound": (is_forward and of_responses and mode != "old", (None, RHO_BOUND)),
        "rpg.reference.kl_ema": (mode in MOVING_REFERENCES, (0.9,)),
        f"{ACTOR}.loss_agg_mode": (run[LOSS_MODE] not in ("sapo", "geo_mean"), ("token-mean", "seq-mean-token-mean")),
        f"{ACTOR}.clip_ratio_low": (rule != "none", (0.2,)),  # of the group `clip`
        f"{ACTOR}.clip_ratio_high": (rule != "none", (0.28,)),
        f"{ACTOR}.clip_ratio_c": (rule not in ("none", "hard"), (10.0,)),
    }
    for key, (is_read, usual) in reads.items():
        if not is_read and run[key] not in usual:
            where = f"{run.shown(LOSS_MODE)}, kl_scope={run.rpg.kl_scope} and reference={mode}"
            yield run.error(key, f"has no effect with {where}", "remove it")
    if run[LOSS_MODE] not in LOSSES:
        return
    if run[f"{LOSS}.kl_coef"] is None:
        yield run.error(LOSS_MODE, "is set without kl_coef", "choose method=NAME, which sets both")
    pairs = {f"{ACTOR}.use_kl_loss": f"{ACTOR}.kl_loss_coef", "algorithm.use_kl_in_reward": "algorithm.kl_ctrl.kl_coef"}
    for switch, coefficient in pairs.items():
        if run[switch] and run[coefficient] != 0:
            message = f"counts the KL twice, as {run.shown(LOSS_MODE)} contains it"
            yield run.error(switch, message, "set it to false; rpg.kl_coef is the strength of the KL")


def reference(run: RunConfig) -> Findings:
    """The loss sees pi_ref, its renewal pi_theta, and an adapter's pi_ref is the policy that the run starts from."""
    mode = run.rpg.reference.mode
    if mode != "old" and run[LOSS_MODE] not in LOSSES:
        yield run.error(REFERENCE, f"is not read by {run.shown(LOSS_MODE)}", "choose an rpg method, or reference=old")
    if mode == "kl_target" and run[f"{CORRECTION}.bypass_mode"]:
        message = "would measure the KL between pi_ref and the rollout policy, not the trained one"
        yield run.error(REFERENCE, message, "use reference=every_k, or pi_old=recomputed or decoupled")
    if run[f"{MODEL}.lora_adapter_path"] and run.has_reference_model:
        message = "would start from the adapter, but pi_ref would be the model without it"
        yield run.error(f"{MODEL}.lora_adapter_path", message, "merge it into the model, or use reference=old")
    if mode in MOVING_REFERENCES and run[f"{MODEL}.lora_rank"]:
        message = "makes the model without the adapter pi_ref, which cannot be renewed"
        yield run.error(f"{MODEL}.lora_rank", message, "set it to 0, or use reference=old or fixed")


def updates(run: RunConfig) -> Findings:
    """Schedule-free AdamW has no second schedule; micro-batches do not change the loss; an update changes something.

    In a batch's first update with pi_ref = pi_old w is 1, no clip acts, and the gradient of each of the four KLs is 0
    on average. Schedule-free takes it at another point; a behaviour policy is another engine's.
    """
    free, epochs, batch = asked_for(run[f"{OPTIM}.optimizer_impl"]), f"{ACTOR}.ppo_epochs", run[BATCH]
    usual = {"lr_scheduler_type": ("constant",), "lr_warmup_steps": (0, -1), "lr_warmup_steps_ratio": (0,)}
    for name, values in usual.items() if free else ():
        if run[f"{OPTIM}.{name}"] not in values:
            remedy = f"remove it; the warm-up is {OPTIM}.override_optimizer_config.warmup_steps"
            yield run.error(f"{OPTIM}.{name}", f"is not for {OPTIMIZER}, which has its own schedule", remedy)
    scale, aggregation = f"{ACTOR}.loss_scale_factor", f"{ACTOR}.loss_agg_mode"
    if run[aggregation] == "seq-mean-token-sum-norm" and run[scale] is None:
        message = f"with {run.shown(aggregation)}: verl divides by each micro-batch's longest response"
        yield run.error(scale, message, f"set it, for example to {run['data.max_response_length']}", "warning")
    if run[LOSS_MODE] == "geo_mean":
        yield run.error(LOSS_MODE, "sums the means of micro-batches: their number scales it", "use another", "warning")
    if run[f"{FSDP}.model_dtype"] not in ("fp32", "float32") and not run[f"{MODEL}.lora_rank"]:
        message = f"with {run.shown(f'{OPTIM}.lr')}: steps below 1/512 (fp16: 1/4096) of a weight are rounded away"
        yield run.error(f"{FSDP}.model_dtype", message, "set mixed_precision.param_dtype instead", "warning")
    if run["trainer.val_only"]:
        return
    moved = free or run["trainer.v1.trainer_mode"] == SEPARATE or run[f"{CORRECTION}.bypass_mode"]
    unmoved = run[LOSS_MODE] in LOSSES and run.rpg.reference.mode == "old" and run[f"{LOSS}.kl_coef"] != 0
    if unmoved and not moved and run[epochs] * batch // run[MINI_BATCH] == 1:
        message = (
            f"is {BATCH}, with {run.shown(epochs)} and {run.shown(REFERENCE)}: in a batch's only update "
            f"w is 1, clip and rpg.kl_coef have no effect, and {run[LOSS_MODE]} is REINFORCE"
        )
        remedy = f"lower it to {max(batch // 4, 1)} for four updates, or use reference=fixed"
        yield run.error(MINI_BATCH, message, remedy, "warning")
    if run[N] == 1 and run[ESTIMATOR] in WITH_GROUPS:
        message = f"with {run.shown(ESTIMATOR)}: a group of one has no baseline, and the advantage is the reward"
        yield run.error(N, message, "use 2 or more, or method=null with an estimator without groups", "warning")
