"""Checks of loss, advantages, KL and reference, whose faults would silently train something else."""

from rpg.config.keys import KEYS, ROWS, SEPARATE
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Findings, did_you_mean
from rpg.names import ADVANTAGES, CLIP_SCOPES, DIVERGENCES, KL_SCOPES, LOSSES, MOVING_REFERENCES, RHO_BOUND
from rpg.registry.methods import BOUNDS
from rpg.verl_plugin.schedule_free import asked_for

BY_RESPONSE = ("sapo",)  # a loss of verl that ignores loss_agg_mode: it averages over responses
BY_MICRO_BATCH = {  # losses of verl that depend on how a mini-batch is split into micro-batches
    "geo_mean": "averages over each micro-batch, and micro-batches are summed: the gradient grows with their number",
    "clip_cov": "chooses tokens in each micro-batch, at least one",
    "kl_cov": "chooses tokens in each micro-batch, at least one",
}
WITHOUT_BOUNDS = ("sapo", "gpg", "kl_cov", "dro")  # losses of verl that read neither clip_low nor clip_high
WITH_C = ("vanilla", "dppo_tv", "dppo_kl", "bypass_mode")  # that read clip_c
WITH_GROUPS = ("rpg", "grpo", "rloo", "opo", "gpg")  # estimators whose baseline is 0 in a group of one
USUAL_BETA = 1e-4  # rpg_trainer.yaml's default; methods with another coefficient do not change it


def names_of_ours(run: RunConfig) -> Findings:
    """A loss or estimator whose name begins with rpg exists.

    verl.py looks up other names, and those of the user's files.
    """
    s = run.settings
    for field, known in (("loss", LOSSES), ("estimator", ADVANTAGES)):
        name = getattr(s, field)
        if name.lower().startswith("rpg") and name not in known and not s.libraries:
            yield s.error(field, "is not registered", did_you_mean(name, known))


def read_by_the_loss(run: RunConfig) -> Findings:
    """Each changed setting of loss, clip, KL and weights is read, if the loss is not the user's.

    Of what verl reads a warning, because scripts of its users carry such keys.
    """
    s = run.settings
    if s.loss not in LOSSES and s.libraries:
        return
    divergence, estimator, clip = LOSSES.get(s.loss, ("", "", "verl's"))
    rule = s.clip_scope or CLIP_SCOPES[0] if estimator == "differentiable" else clip
    by_response = s.loss_kl_scope == "response"
    user_estimator = bool(s.libraries) and s.estimator not in ADVANTAGES
    readers = {
        ("loss", "kl_scope"): {
            "clip_scope": estimator == "differentiable",
            "clip_branch": clip == "ppo",
            "clip_low": rule != "none",
            "clip_high": rule != "none",
            "clip_c": rule not in ("none", "hard"),
            "z_old": divergence in ("ufkl", "urkl") and not by_response,  # 1 between normalised policies
            "rho_bound": divergence in ("fkl", "ufkl") and by_response,
        },
        ("loss",): {
            **dict.fromkeys(("tau_pos", "tau_neg"), s.loss == "sapo"),
            **dict.fromkeys(("clip_low", "clip_high"), s.loss not in WITHOUT_BOUNDS),
            "clip_c": s.loss in LOSSES or s.loss in WITH_C,
        },
        ("estimator",): {
            "gamma": s.estimator in ("gae", "reinforce_plus_plus") or user_estimator,
            "lam": s.estimator == "gae" or user_estimator,
        },
        ("aggregation",): {"loss_scale": s.aggregation == "seq-mean-token-sum-norm"},
        ("kl_loss",): dict.fromkeys(("kl_loss_coef", "kl_loss_kind"), s.kl_loss),
        ("kl_in_reward",): dict.fromkeys(("kl_in_reward_coef", "kl_in_reward_kind"), s.kl_in_reward),
        ("weight",): dict.fromkeys(("weight_threshold", "weight_mean_one"), s.weight is not None),
        ("rejection",): {"rejection_threshold": s.rejection is not None},
    }
    for reasons, reads in readers.items():
        for name in (name for name, is_read in reads.items() if not is_read):
            usual = {"clip_scope": None, "clip_branch": None, "rho_bound": RHO_BOUND}.get(name, ROWS[name].named)
            if getattr(s, name) not in (None, usual, 0 if name.endswith("_coef") else None):
                message = f"is not read with {' and '.join(map(s.shown, reasons))}"
                yield s.finding(name, message, "remove it", "error" if "kl_scope" in reasons else "warning")


def kl_counted_once(run: RunConfig) -> Findings:
    """Verl's KL loss and KL in the reward are off, or have coefficient 0, beside an RPG loss."""
    s = run.settings
    remedy = f"set it to false; the strength of the KL is {KEYS['kl_coef']}"
    for name in ("kl_loss", "kl_in_reward"):
        if s.loss in LOSSES and getattr(s, name) and getattr(s, f"{name}_coef") != 0:
            beside = f"with {s.shown(f'{name}_coef')} beside {s.shown('loss')}"
            yield s.error(name, f"{beside} counts the KL twice: the RPG loss contains its own", remedy)


def beta_reaches_the_loss(run: RunConfig) -> Findings:
    """A changed rpg.kl_coef is the coefficient that the loss uses."""
    s = run.settings
    if s.loss in LOSSES:
        used = s.kl_coef
        if used is None:
            message = f"is set, and {s.shown('beta')} does not reach it: the loss would take {USUAL_BETA}"
            yield s.error("loss", message, "choose the loss by method=rpg, rpg_rf or rpg_rf_clip_ppo")
    else:
        used = s.kl_loss_coef if s.kl_loss else s.kl_in_reward_coef if s.kl_in_reward else 0
    if s.beta not in (USUAL_BETA, used):
        message = (
            f"reaches no KL: an RPG loss takes {s.shown('kl_coef')}, another {s.shown('kl_loss_coef')} if "
            f"{KEYS['kl_loss']}, or {s.shown('kl_in_reward_coef')} if {KEYS['kl_in_reward']}"
        )
        yield s.finding("beta", message, "remove it, or set that key", "warning")


def scope_of_the_kl(run: RunConfig) -> Findings:
    """A changed rpg.kl_scope reaches an RPG loss."""
    s = run.settings
    if s.loss not in LOSSES and s.divergence != DIVERGENCES[-1]:
        yield s.error("divergence", f"reaches no loss: {s.shown('loss')} has none", "choose an rpg method")
    used = s.loss_kl_scope or KL_SCOPES[0] if s.loss in LOSSES else None
    if s.kl_scope not in (KL_SCOPES[0], used):
        reason = "choose an rpg method" if used is None else f"set it by {KEYS['kl_scope']} alone"
        yield s.error("kl_scope", f"reaches no loss: {s.shown('loss')} takes {used or 'none'}", reason)


def one_update_a_batch(run: RunConfig) -> Findings:
    """An RPG loss with pi_ref = pi_old has several updates a batch (a warning).

    In the first of them pi_theta is pi_old: w is 1, no clip acts, and the gradient of each of the four KLs is 0 on
    average. Schedule-free takes it at another point; a behaviour policy is another engine's.
    """
    s = run.settings
    updates = s.ppo_epochs * s.batch // s.mini_batch
    moved = s.schedule == SEPARATE or s.bypass or asked_for(s.optimizer_package)
    if s.loss in LOSSES and s.reference == "old" and s.kl_coef != 0 and updates == 1 and not (moved or s.val_only):
        message = (
            f"is {KEYS['batch']}, with {s.shown('ppo_epochs')} and {s.shown('reference')}: in a batch's one update "
            f"w is 1, neither clip nor {KEYS['beta']} has an effect, and {s.loss} is REINFORCE"
        )
        remedy = f"lower it to {max(s.batch // 4, 1)} for four updates, or use reference=fixed"
        yield s.finding("mini_batch", message, remedy, "warning")


def groups_of_one(run: RunConfig) -> Findings:
    """An estimator with a baseline of the group has groups of two responses or more (a warning)."""
    s = run.settings
    if s.n == 1 and s.estimator in WITH_GROUPS and not s.val_only:
        message = f"with {s.shown('estimator')}: a group of one has no baseline, and the advantage is the reward"
        yield s.finding("n", message, f"use 2 or more, or {KEYS['estimator']}=rpg_batchmean", "warning")


def reference(run: RunConfig) -> Findings:
    """The settings of pi_ref agree: mode, trigger, engine, adapter."""
    s = run.settings
    mode = f"with {s.shown('reference')}"
    for name, wanted in (("every_k", "a number of optimizer steps"), ("kl_target", "nats per token")):
        if s.reference == name and getattr(s, name) is None:
            yield s.error(name, f"must be {wanted} {mode}")
        if s.reference != name and getattr(s, name) is not None:
            yield s.error(name, f"is not read {mode}", f"remove it, or use reference={name}")
    if s.reference != "kl_target" and s.kl_ema != ROWS["kl_ema"].named:
        yield s.error("kl_ema", f"is not read {mode}", "remove it, or use reference=kl_target")
    if s.lora_path and s.has_reference_model:
        message = "with a KL to the initial policy: pi_ref would be the base model, and the run starts from the adapter"
        yield s.error("lora_path", message, "merge it into the model, or leave the KL out (an rpg method, dapo)")
    if s.has_reference_model and not s.lora_rank and not s.ref_packs and s.ref_micro_batch is None:
        yield s.error("ref_micro_batch", f"must be a number of sequences, as {KEYS['ref_packs']} is false")
    if s.reference == "old":
        return
    for name in ("strategy", "ref_strategy"):
        if getattr(s, name) != "fsdp2":
            yield s.error(name, f"must be fsdp2 {mode}")
    if s.ref_fsdp_size != s.fsdp_size:
        message = f"must be the actor's {s.fsdp_size} {mode}: each rank copies its own shards"
        yield s.error("ref_fsdp_size", message)
    if s.reference in MOVING_REFERENCES and s.lora_rank:
        message = f"{mode}: pi_ref of an adapter is the base model, which cannot be renewed"
        yield s.error("lora_rank", message, f"set it to 0, or {KEYS['reference']} to old or fixed")


def loss_sees_the_reference(run: RunConfig) -> Findings:
    """The loss takes ref_log_prob if pi_ref is a separate model.

    verl's own losses do not take it.
    """
    s = run.settings
    if s.reference != "old" and s.loss not in LOSSES:
        message = f"needs a loss that sees the reference, and {s.shown('loss')} does not"
        yield s.error("reference", message, f"choose an rpg loss, or set {KEYS['reference']}=old")


def bounds_of_the_loss(run: RunConfig) -> Findings:
    """A loss of verl has its authors' bounds (a warning).

    verl's losses share clip_ratio_low and clip_ratio_high, which bound a different quantity in each.
    """
    bounds = BOUNDS.get(run.settings.loss)
    if bounds is None:
        return
    s = run.settings
    if (s.clip_low, s.clip_high) == (bounds.low, bounds.high):
        return
    message = (
        f"with {s.shown('clip_low')} and {s.shown('clip_high')}, which bound {bounds.meaning}: its authors use "
        f"{bounds.low:g} and {bounds.high:g} ({bounds.source})"
    )
    by_hand = f"set {KEYS['clip_low']}={bounds.low:g} and {KEYS['clip_high']}={bounds.high:g}"
    remedy = f"take method={bounds.method} with all of its settings, or {by_hand}" if bounds.method else by_hand
    yield s.finding("loss", message, remedy, "warning")


def aggregation_of_the_loss(run: RunConfig) -> Findings:
    """The loss reads loss_agg_mode; divided by a length, it has a constant one (warnings).

    Otherwise the gradient depends on how a mini-batch is split.
    """
    s = run.settings
    if s.loss in BY_MICRO_BATCH:
        remedy = "choose another loss, or compare runs with equal micro-batches only"
        yield s.finding("loss", BY_MICRO_BATCH[s.loss], remedy, "warning")
    if s.loss in BY_RESPONSE and s.aggregation != "seq-mean-token-mean":
        message = f"is not read by {s.shown('loss')}, which verl averages over responses, each with the same weight"
        yield s.finding("aggregation", message, "set it to seq-mean-token-mean", "warning")
    elif s.aggregation == "seq-mean-token-sum-norm" and s.loss_scale is None:
        message = f"with {s.shown('aggregation')}: verl divides by each micro-batch's longest response"
        yield s.finding("loss_scale", message, f"set it, for example to {s.response}", "warning")
