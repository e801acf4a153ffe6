"""Checks of loss, advantages, KL and reference, whose faults would silently train something else."""

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, CORRECTION, FSDP, LOSS, MODEL, OPTIM, REF, ROLLOUT, SEPARATE
from rpg.diagnostics import Findings, did_you_mean
from rpg.names import ADVANTAGES, CLIP_BRANCHES, CLIP_SCOPES, KL_SCOPES, LOSSES, MOVING_REFERENCES, RHO_BOUND
from rpg.verl_plugin.schedule_free import OPTIMIZER, PACKAGE, asked_for

WITH_GROUPS = ("rpg", "grpo", "rloo", "opo", "gpg")  # estimators whose baseline is 0 in a group of one
LOSS_MODE, REFERENCE = f"{LOSS}.loss_mode", "rpg.reference.mode"


def names_of_ours(run: RunConfig) -> Findings:
    """A loss or estimator whose name begins with rpg exists, and no estimator needs a critic.

    The check `registered` looks up other names, and those of the user's files; it imports verl.
    """
    if run["algorithm.adv_estimator"] == "gae":
        yield run.error("algorithm.adv_estimator", "needs a critic, which this recipe has not", "set rpg or grpo")
    for key, known in ((LOSS_MODE, LOSSES), ("algorithm.adv_estimator", ADVANTAGES)):
        name = run[key]
        if name.lower().startswith("rpg") and name not in known and not run.rpg.external_lib:
            yield run.error(key, "is not registered", did_you_mean(name, known))


def read_by_the_loss(run: RunConfig) -> Findings:
    """An RPG loss reads each setting of its clip and KL that is changed."""
    if run[LOSS_MODE] not in LOSSES:
        return
    divergence, estimator, clip = LOSSES[run[LOSS_MODE]]
    rule = run[f"{LOSS}.clip_scope"] or CLIP_SCOPES[0] if estimator == "differentiable" else clip
    of_responses = run[f"{LOSS}.kl_scope"] == "response"
    reads = {  # key: whether it is read, and the values that change nothing
        f"{LOSS}.clip_scope": (estimator == "differentiable", (None,)),
        f"{LOSS}.clip_branch": (clip == "ppo", (None, CLIP_BRANCHES[0])),
        f"{LOSS}.z_old": (divergence in ("ufkl", "urkl") and not of_responses, (None, 1.0)),
        "rpg.rho_bound": (divergence in ("fkl", "ufkl") and of_responses, (None, RHO_BOUND)),
        f"{ACTOR}.clip_ratio_low": (rule != "none", (0.2,)),  # of the group `clip`
        f"{ACTOR}.clip_ratio_high": (rule != "none", (0.28,)),
        f"{ACTOR}.clip_ratio_c": (rule not in ("none", "hard"), (10.0,)),
    }
    for key, (is_read, usual) in reads.items():
        if not is_read and run[key] not in usual:
            yield run.error(key, f"is not read by {run.shown(LOSS_MODE)} with kl_scope={run.rpg.kl_scope}", "remove it")


def kl_counted_once(run: RunConfig) -> Findings:
    """Verl's KL loss and KL in the reward are off, or have coefficient 0, beside an RPG loss."""
    pairs = {f"{ACTOR}.use_kl_loss": f"{ACTOR}.kl_loss_coef", "algorithm.use_kl_in_reward": "algorithm.kl_ctrl.kl_coef"}
    for switch, coefficient in pairs.items():
        if run[LOSS_MODE] in LOSSES and run[switch] and run[coefficient] != 0:
            message = f"with {run.shown(coefficient)} counts the KL twice: {run[LOSS_MODE]} contains its own"
            yield run.error(switch, message, "set it to false; rpg.kl_coef is the strength of the KL")


def reference(run: RunConfig) -> Findings:
    """The loss sees pi_ref, and an adapter's pi_ref is the policy that the run starts from."""
    mode = run.rpg.reference.mode
    if mode != "old" and run[LOSS_MODE] not in LOSSES:
        message = f"is not read by {run.shown(LOSS_MODE)}: verl's losses see no reference"
        yield run.error(REFERENCE, message, "choose an rpg method, or reference=old")
    if run[f"{MODEL}.lora_adapter_path"] and run.has_reference_model:
        message = "with a KL to the initial policy: pi_ref would be the base model, and the run starts from the adapter"
        yield run.error(f"{MODEL}.lora_adapter_path", message, "merge it into the model, or leave the KL out")
    if mode in MOVING_REFERENCES and run[f"{MODEL}.lora_rank"]:
        message = f"with {run.shown(REFERENCE)}: pi_ref of an adapter is the base model, which cannot be renewed"
        yield run.error(f"{MODEL}.lora_rank", message, "set it to 0, or use reference=old or fixed")
    for key in (f"{ACTOR}.strategy", f"{REF}.strategy"):
        if mode != "old" and run[key] != "fsdp2":
            yield run.error(key, f"must be fsdp2 with {run.shown(REFERENCE)}")
    if mode != "old" and run[f"{REF}.fsdp_config.fsdp_size"] != run[f"{FSDP}.fsdp_size"]:
        message = f"must be the actor's {run[f'{FSDP}.fsdp_size']} with {run.shown(REFERENCE)}: ranks copy their shards"
        yield run.error(f"{REF}.fsdp_config.fsdp_size", message)


def aggregation_of_the_loss(run: RunConfig) -> Findings:
    """A loss divided by a length has a constant one; otherwise the gradient depends on the micro-batches."""
    scale = f"{ACTOR}.loss_scale_factor"
    if run[f"{ACTOR}.loss_agg_mode"] == "seq-mean-token-sum-norm" and run[scale] is None:
        message = f"with {run.shown(f'{ACTOR}.loss_agg_mode')}: verl divides by each micro-batch's longest response"
        yield run.error(scale, message, f"set it, for example to {run['data.max_response_length']}", "warning")


def schedule_free(run: RunConfig) -> Findings:
    """Schedule-free AdamW runs with fsdp2 and without a second warm-up."""
    package = f"{OPTIM}.optimizer_impl"
    if not asked_for(run[package]):
        if run[f"{OPTIM}.optimizer"] == OPTIMIZER:
            message = f"needs optimizer_impl={PACKAGE}, and it is {run[package]}"
            yield run.error(f"{OPTIM}.optimizer", message, "take optim=schedulefree")
        return
    wanted = {
        f"{OPTIM}.optimizer": OPTIMIZER, f"{ACTOR}.strategy": "fsdp2", f"{OPTIM}.lr_scheduler_type": "constant",
    }  # fmt: skip
    for key, value in wanted.items():
        if run[key] != value:
            yield run.error(key, f"must be {value} with optimizer_impl={PACKAGE}")
    for key in (f"{OPTIM}.lr_warmup_steps", f"{OPTIM}.lr_warmup_steps_ratio"):
        if run[key] > 0:
            message = f"is verl's learning-rate warm-up, and {OPTIMIZER} has its own"
            yield run.error(key, message, f"set it to 0; the warm-up is {OPTIM}.override_optimizer_config.warmup_steps")


def one_update_a_batch(run: RunConfig) -> Findings:
    """An RPG loss with pi_ref = pi_old has several updates a batch (a warning).

    In the first of them pi_theta is pi_old: w is 1, no clip acts, and the gradient of each of the four KLs is 0 on
    average. Schedule-free takes it at another point; a behaviour policy is another engine's.
    """
    mini_batch, epochs = f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.ppo_epochs"
    batch = run["data.train_batch_size"]
    moved = (
        run["trainer.v1.trainer_mode"] == SEPARATE
        or run[f"{CORRECTION}.bypass_mode"]
        or asked_for(run[f"{OPTIM}.optimizer_impl"])
        or run["trainer.val_only"]
    )
    updates = run[epochs] * batch // run[mini_batch]
    unmoved = run[LOSS_MODE] in LOSSES and run.rpg.reference.mode == "old" and run[f"{LOSS}.kl_coef"] != 0
    if unmoved and updates == 1 and not moved:
        message = (
            f"is data.train_batch_size, with {run.shown(epochs)} and {run.shown(REFERENCE)}: in a batch's one update "
            f"w is 1, neither clip nor rpg.kl_coef has an effect, and {run[LOSS_MODE]} is REINFORCE"
        )
        remedy = f"lower it to {max(batch // 4, 1)} for four updates, or use reference=fixed"
        yield run.error(mini_batch, message, remedy, "warning")


def groups_of_one(run: RunConfig) -> Findings:
    """An estimator with a baseline of the group has groups of two responses or more (a warning)."""
    estimator, n = "algorithm.adv_estimator", f"{ROLLOUT}.n"
    if run[n] == 1 and run[estimator] in WITH_GROUPS and not run["trainer.val_only"]:
        message = f"with {run.shown(estimator)}: a group of one has no baseline, and the advantage is the reward"
        yield run.error(n, message, "use 2 or more, or method=null with an estimator without groups", "warning")


def kl_of_responses(run: RunConfig) -> Findings:
    """rpg.kl_scope=response has an effect: a forward KL of responses to pi_old is that of tokens."""
    if run[LOSS_MODE] in LOSSES and run[f"{LOSS}.kl_scope"] == KL_SCOPES[1]:
        divergence = LOSSES[run[LOSS_MODE]][0]
        if run.rpg.reference.mode == "old" and divergence in ("fkl", "ufkl"):
            message = f"has no effect with {run.shown(REFERENCE)}: there a forward KL of responses is that of tokens"
            yield run.error("rpg.kl_scope", message, "leave it out, or use reference=fixed")
