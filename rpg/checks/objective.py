"""Loss, KL, reference and optimizer: what contradicts itself though each setting is in its range."""

import difflib
import importlib.util
from collections.abc import Iterator

from rpg.checks.finding import Finding, Run, check
from rpg.checks.schema import ACTOR, MODEL, REF
from rpg.objectives.spec import LOSS_NAMES, unknown_name_message
from rpg.verl_plugin.reference_settings import KEY as REFERENCE
from rpg.verl_plugin.schedule_free import INSTALL, OPTIM, OPTIMIZER, PACKAGE, asked_for

LOSS = f"{ACTOR}.policy_loss.loss_mode"
ESTIMATOR = "algorithm.adv_estimator"
RPG_ESTIMATORS = ("rpg", "rpg_batchmean")
NORMALIZED = ("fkl", "rkl")


@check("loss name", "a name of the form rpg* is one of the sixteen losses", LOSS)
def loss_name(run: Run) -> Iterator[Finding]:
    """Misspelt RPG losses; verl's registry is asked for the other names (verl_own.py)."""
    name = run.get(LOSS)
    if name not in LOSS_NAMES and name.lower().startswith("rpg"):
        yield Finding(LOSS, name, unknown_name_message(name))


@check("estimator name", "an estimator of the form rpg* is rpg or rpg_batchmean", ESTIMATOR)
def estimator_name(run: Run) -> Iterator[Finding]:
    """Misspelt RPG estimators; verl's registry is asked for the other names (verl_own.py)."""
    name = run.get(ESTIMATOR)
    if name not in RPG_ESTIMATORS and name.lower().startswith("rpg"):
        near = difflib.get_close_matches(name.lower(), RPG_ESTIMATORS, n=1, cutoff=0)
        yield Finding(ESTIMATOR, name, f"is not registered; the nearest is {near[0]}")


@check(
    "Z_old", "a total mass other than 1 has a loss between unnormalised policies", LOSS, f"{ACTOR}.policy_loss.z_old"
)
def z_old(run: Run) -> Iterator[Finding]:
    """z_old beside FKL or RKL."""
    name, value = run.get(LOSS), run.get(f"{ACTOR}.policy_loss.z_old", 1.0)
    if value != 1.0 and name in LOSS_NAMES and LOSS_NAMES[name][0] in NORMALIZED:
        wrong = f"has no meaning for {name}: {LOSS_NAMES[name][0]} is defined between normalised policies"
        yield Finding(f"{ACTOR}.policy_loss.z_old", value, wrong, "set it to 1.0, or choose a ufkl or urkl loss")


SHAPES = {"clip_scope": ("dual", "rpg_DIVERGENCE"), "clip_branch": ("ppo", "rpg_rf_DIVERGENCE_clip_ppo")}


@check("shape of the clip", "clip_scope and clip_branch are set where the loss reads them", LOSS,
       *(f"{ACTOR}.policy_loss.{name}" for name in SHAPES))  # fmt: skip
def shape_of_the_clip(run: Run) -> Iterator[Finding]:
    """Either shapes one kind of clip (LossSpec.rule), and no other."""
    clip = LOSS_NAMES.get(run.get(LOSS), ("", "", ""))[2]
    for name, (read_by, losses) in SHAPES.items():
        key = f"{ACTOR}.policy_loss.{name}"
        if run.get(key) is not None and clip != read_by:
            wrong = f"is not read by {LOSS}={run.get(LOSS)}"
            yield Finding(key, run.get(key), wrong, f"leave it out, or choose a loss {losses}")


PENALTIES = (
    (f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef"),
    ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef"),
)


@check(
    "KL counted once",
    "verl's KL loss and KL in the reward are off, or 0, beside an RPG loss",
    LOSS,
    *sum(PENALTIES, ()),
)
def kl_counted_once(run: Run) -> Iterator[Finding]:
    """verl's own two KL penalties beside the KL that every RPG loss contains."""
    if run.get(LOSS) not in LOSS_NAMES:
        return
    for switch, coefficient in PENALTIES:
        if run.get(switch) and run.get(coefficient) != 0:
            wrong = (
                f"with {coefficient}={run.get(coefficient)} beside {LOSS}={run.get(LOSS)} counts the KL twice: the "
                "RPG loss contains its own"
            )
            yield Finding(switch, True, wrong, f"set it to false; the KL's strength is {ACTOR}.policy_loss.kl_coef")


BETA, USUAL = "rpg.kl_coef", 1e-4  # rpg_trainer.yaml's, which methods with a coefficient of their own leave alone


@check(
    "beta reaches the loss",
    "policy_loss.kl_coef is set, under RPGPolicyLossConfig, where an RPG loss has an rpg.kl_coef; one that is set "
    "is the coefficient in force",
    LOSS, BETA, f"{ACTOR}.policy_loss.kl_coef", f"{ACTOR}.policy_loss._target_", *sum(PENALTIES, ()),
)  # fmt: skip
def beta_reaches_the_loss(run: Run) -> Iterator[Finding]:
    """An RPG loss with method=grpo's configuration has no beta of its own, and would take 1e-4."""
    ours, beta, key = run.get(LOSS) in LOSS_NAMES, run.get(BETA), _in_force(run)
    if ours and key is not None and run.get(key) is None:
        wrong = f"is set, and {BETA}={beta} does not reach it: the loss would take 1e-4"
        yield Finding(LOSS, run.get(LOSS), wrong, "choose the loss by method=rpg, rpg_rf or rpg_rf_clip_ppo")
    elif key is None and beta not in (USUAL, 0):
        yield Finding(BETA, beta, "reaches nothing: this run has no KL", "leave it out", "warning")
    elif key is not None and beta not in (USUAL, run.get(key)):
        wrong = f"does not reach the KL, whose coefficient in force is {key}={run.get(key)}"
        yield Finding(BETA, beta, wrong, f"leave it out, and set {key}", "warning")


def _in_force(run: Run) -> str | None:
    """The key of the coefficient that the KL of the run has."""
    if run.get(LOSS) in LOSS_NAMES:
        return f"{ACTOR}.policy_loss.kl_coef"
    return next((coefficient for switch, coefficient in PENALTIES if run.get(switch)), None)


@check("reference", "the settings of pi_ref fit together: mode, trigger, engine, adapter",
       REFERENCE, LOSS, f"{ACTOR}.strategy", f"{MODEL}.lora_rank", f"{ACTOR}.use_dynamic_bsz")  # fmt: skip
def reference(run: Run) -> Iterator[Finding]:
    """A pi_ref that is a model of its own and cannot be one, or lacks its trigger."""
    mode, where = run.get(f"{REFERENCE}.mode"), f"with {REFERENCE}.mode={run.get(f'{REFERENCE}.mode')}"
    for name, wanted in (
        ("every_k", "a whole number of optimizer steps, at least 1"),
        ("kl_target", "a number above 0, in nats a token"),
    ):
        value = run.get(f"{REFERENCE}.{name}")
        if mode == name and value is None:
            yield Finding(f"{REFERENCE}.{name}", None, f"must be {wanted} {where}")
        elif mode != name and value is not None:
            wrong = f"is not read {where}"
            yield Finding(f"{REFERENCE}.{name}", value, wrong, f"leave it out, or take reference={name}")
    if mode == "old":
        return
    for part in ("actor", "ref"):
        key = f"actor_rollout_ref.{part}.strategy"
        if run.get(key) != "fsdp2":
            yield Finding(key, run.get(key), f"must be fsdp2 {where}")
    mine, actors = run.get(f"{REF}.fsdp_config.fsdp_size"), run.get(f"{ACTOR}.fsdp_config.fsdp_size")
    if mine != actors:
        wrong = f"must be the actor's {actors} {where}: each rank copies its own shards"
        yield Finding(f"{REF}.fsdp_config.fsdp_size", mine, wrong)
    for key in (f"{MODEL}.lora_rank", f"{MODEL}.lora.rank"):
        if run.get(key):
            wrong = f"{where}: with an adapter verl's reference is the actor without it, no model that could be renewed"
            yield Finding(key, run.get(key), wrong, f"set it to 0, or {REFERENCE}.mode=old")
    size = f"{REF}.log_prob_micro_batch_size_per_gpu"
    if not run.get(f"{ACTOR}.use_dynamic_bsz") and run.get(size) is None:
        yield Finding(size, None, f"must be a number of sequences {where}, as use_dynamic_bsz is off")


@check("schedule-free", "schedule-free AdamW has its package, fsdp2, and no second warm-up",
       f"{OPTIM}.optimizer", f"{OPTIM}.optimizer_impl", f"{OPTIM}.lr_warmup_steps", f"{OPTIM}.lr_warmup_steps_ratio",
       f"{OPTIM}.lr_scheduler_type", f"{ACTOR}.strategy")  # fmt: skip
def schedule_free(run: Run) -> Iterator[Finding]:
    """A schedule-free run that could not start, or whose learning rate would be warmed up twice."""
    optim = run.get(OPTIM)
    if not asked_for(optim):
        if optim["optimizer"] == OPTIMIZER:
            wrong = f"needs optimizer_impl={PACKAGE}, and it is {optim['optimizer_impl']}"
            yield Finding(f"{OPTIM}.optimizer", OPTIMIZER, wrong, "take optim=schedulefree")
        return
    if importlib.util.find_spec(PACKAGE) is None:
        wrong = f"the package {PACKAGE} is not installed"
        remedy = f"install it with {INSTALL}, or take optim=adamw"
        yield Finding(f"{OPTIM}.optimizer_impl", optim["optimizer_impl"], wrong, remedy)
    if optim["optimizer"] != OPTIMIZER:
        yield Finding(f"{OPTIM}.optimizer", optim["optimizer"], f"with optimizer_impl={PACKAGE} must be {OPTIMIZER}")
    if run.get(f"{ACTOR}.strategy") != "fsdp2":
        yield Finding(f"{ACTOR}.strategy", run.get(f"{ACTOR}.strategy"), f"with {OPTIMIZER} must be fsdp2")
    for key, nothing in (("lr_warmup_steps", "0"), ("lr_warmup_steps_ratio", "0.0")):
        if optim[key] > 0:
            wrong = f"is verl's learning-rate scheduler, and {OPTIMIZER} has its own warm-up"
            remedy = f"set {key}={nothing}; the warm-up is {OPTIM}.override_optimizer_config.warmup_steps"
            yield Finding(f"{OPTIM}.{key}", optim[key], wrong, remedy)
    if optim["lr_scheduler_type"] != "constant":
        wrong = f"with {OPTIMIZER} must be constant: it needs none"
        yield Finding(f"{OPTIM}.lr_scheduler_type", optim["lr_scheduler_type"], wrong)
