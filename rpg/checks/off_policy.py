"""Schedule and pi_old: which policy sampled, which one the loss is told of, and whether that was meant."""

import difflib
from collections.abc import Iterator
from math import ceil, isfinite

from rpg.checks.combinations import BATCH, MINI_BATCH
from rpg.checks.finding import Finding, Run, check, shown
from rpg.checks.objective import LOSS
from rpg.checks.schema import ACTOR, ROLLOUT, SCHEDULES
from rpg.objectives.spec import LOSS_NAMES
from rpg.verl_plugin.reference_settings import KEY as REFERENCE

MODE = "trainer.v1.trainer_mode"
SYNC, *ASYNCHRONOUS = SCHEDULES
NAMED = "rpg.pi_old"
CORRECTION = "algorithm.rollout_correction"
BYPASS, WEIGHT, THRESHOLD = (f"{CORRECTION}.{name}" for name in ("bypass_mode", "rollout_is", "rollout_is_threshold"))
LOG_PROBS = f"{ROLLOUT}.calculate_log_probs"
UNWEIGHTED = ("bypass_mode",)  # of verl's registered losses: has its own weights, and leaves rollout_is_weights alone


def pi_old(run: Run) -> str:
    """Which pi_old verl's keys make of a run, whatever rpg.pi_old says."""
    if run.get(BYPASS):
        return "behavior"
    return "recomputed" if run.get(WEIGHT) is None else "decoupled"


@check("pi_old", "rpg.pi_old says what verl's keys do, and these reach the loss", NAMED, BYPASS, WEIGHT, THRESHOLD,
       LOG_PROBS, LOSS)  # fmt: skip
def pi_old_reaches_the_loss(run: Run) -> Iterator[Finding]:
    """verl leaves out without a word what lacks its log-probs or its threshold (PPOTrainer._compute_advantage)."""
    named, done = run.get(NAMED), pi_old(run)
    if named not in (None, done):
        keys = f"{BYPASS}={shown(run.get(BYPASS))} with {WEIGHT}={shown(run.get(WEIGHT))}"
        yield Finding(NAMED, named, f"is not what {keys} do: that is {done}", f"take the group, pi_old={named}")
    if run.get(BYPASS) and run.get(WEIGHT) is not None:
        wrong = f"is not read with {BYPASS}=true: the ratio to the policy that sampled is the weight already"
        yield Finding(WEIGHT, run.get(WEIGHT), wrong, "take pi_old=behavior or pi_old=decoupled")
    if done == "recomputed":
        return
    if not run.get(LOG_PROBS):
        wrong = f"leaves pi_old={done} without the log-probs of the policy that sampled"
        yield Finding(LOG_PROBS, False, wrong, "set it to true")
    if done == "decoupled" and run.get(THRESHOLD) is None:
        wrong = f"with {WEIGHT}={run.get(WEIGHT)} leaves the weights out: verl makes none without a threshold"
        yield Finding(THRESHOLD, None, wrong, "set it to 2.0, or a large number for weights that are never cut")
    if done == "decoupled" and run.get(LOSS) in UNWEIGHTED:
        wrong = f"does not multiply with the weights of {WEIGHT}={run.get(WEIGHT)}"
        yield Finding(LOSS, run.get(LOSS), wrong, f"choose another loss, or set {WEIGHT}=null")


REJECTION, LIMITS = (f"{CORRECTION}.{name}" for name in ("rollout_rs", "rollout_rs_threshold"))
# verl's SUPPORTED_ROLLOUT_RS_OPTIONS (verl/trainer/ppo/rollout_corr_helper.py), whose import takes seconds
CRITERIA = (
    "token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3", "seq_mean_k1", "seq_mean_k2",
    "seq_mean_k3", "seq_max_k2", "seq_max_k3",
)  # fmt: skip


@check("rejection sampling", "rollout_rs names criteria of verl, each with its threshold, and reaches the batch",
       REJECTION, LIMITS, BYPASS, LOG_PROBS)  # fmt: skip
def rejection(run: Run) -> Iterator[Finding]:
    """verl reads it after the first batch's rollouts, and only where it has both policies' log-probs."""
    named = run.get(REJECTION)
    if named is None:
        return
    criteria = list(dict.fromkeys(name.strip() for name in named.split(",") if name.strip()))
    unknown = [name for name in criteria if name not in CRITERIA]
    if unknown or not criteria:
        wrong = f"names {unknown[0] if unknown else 'no criterion'}, and verl's are {', '.join(CRITERIA)}"
        near = difflib.get_close_matches(unknown[0] if unknown else named, CRITERIA, n=1, cutoff=0)
        yield Finding(REJECTION, named, wrong, f"did you mean {near[0]}?")
    elif run.get(LIMITS) is None:
        wrong = f"is needed by {REJECTION}={named}"
        yield Finding(LIMITS, None, wrong, "set one for all criteria, or one for each with commas between them")
    else:
        yield from _thresholds(criteria, run.get(LIMITS))
    if run.get(BYPASS):
        wrong = f"is not read with {BYPASS}=true: there is no second policy to compare with the one that sampled"
        yield Finding(REJECTION, named, wrong, "take pi_old=recomputed or pi_old=decoupled")
    elif not run.get(LOG_PROBS):
        wrong = f"leaves {REJECTION}={named} out: verl lacks the log-probs of the policy that sampled"
        yield Finding(LOG_PROBS, False, wrong, "set it to true")


def _thresholds(criteria: list[str], held: str | float) -> Iterator[Finding]:
    limits = [part.strip() for part in str(held).split(",") if part.strip()]
    if len(limits) not in (1, len(criteria)):
        yield Finding(LIMITS, held, f"must be one threshold, or one for each of {', '.join(criteria)}")
        return
    for name, limit in zip(criteria, limits * len(criteria), strict=False):
        if not threshold_is_taken(name, limit):
            wanted = "LOWER_UPPER above 0, or UPPER from 1 on" if name.endswith("k1") else "one number above 0"
            yield Finding(LIMITS, held, f"for {name} must be {wanted}, and it is {limit}")


def threshold_is_taken(criterion: str, text: str) -> bool:
    """Whether verl takes a threshold for a criterion (_parse_rollout_rs_thresholds): a k1 has two ends."""
    ratio = criterion.endswith("k1")
    if "_" in text and not ratio:
        return False
    try:
        ends = [float(part) for part in text.split("_", 1)]
    except ValueError:
        return False
    if min(ends) <= 0 or not all(map(isfinite, ends)):
        return False
    return not ratio or (ends[0] <= ends[1] if len(ends) == 2 else ends[0] >= 1)


@check("asynchronous pi_old", "an RPG loss under an asynchronous schedule takes a recomputed pi_old only by name",
       MODE, LOSS, NAMED, BYPASS, WEIGHT)  # fmt: skip
def asynchronous(run: Run) -> Iterator[Finding]:
    """The weight from the policy that sampled to the recomputed one is then in no term, and nothing shows it."""
    mode = run.get(MODE)
    if mode == SYNC or pi_old(run) != "recomputed" or run.get(NAMED) == "recomputed":
        return
    ours = run.get(LOSS) in LOSS_NAMES
    wrong = (
        f"trains on samples of older policies, and pi_old would be the present one: {run.get(LOSS)} would weigh the "
        "moves since then, not those since the samples, and its gradient be biased in proportion to their age "
        "(docs/off-policy.md)"
    )
    remedy = (
        "choose pi_old=behavior (the policy that sampled; without a clip), pi_old=decoupled (recomputed, with the "
        "weight to it; with a clip), or pi_old=recomputed by that name, or schedule=sync"
    )
    yield Finding(MODE, mode, wrong, remedy, "error" if ours else "warning")


OLDEST, STRATEGY = (f"trainer.v1.sampler.max_off_policy_{name}" for name in ("threshold", "strategy"))
AHEAD = {mode: f"trainer.v1.{mode}.num_warmup_batches" for mode in ASYNCHRONOUS}


@check("staleness", "responses that rollouts are ahead by are not too old to be trained on", MODE, OLDEST, STRATEGY,
       *AHEAD.values())  # fmt: skip
def staleness(run: Run) -> Iterator[Finding]:
    """verl counts the step that a prompt was asked for in and the one that trains on it (ReplayBufferAsync)."""
    key, oldest = AHEAD.get(run.get(MODE)), run.get(OLDEST)
    if key is None or oldest is None or run.get(STRATEGY) != "drop":
        return
    if ceil(run.get(key)) + 1 > oldest:
        wrong = f"makes every response older than {OLDEST}={oldest} when it is trained on: all would be dropped"
        yield Finding(key, run.get(key), wrong, f"lower it to {oldest - 1}, or raise {OLDEST}")


EVERY = "trainer.v1.separate_async.parameter_sync_step"
POOL = (f"{ROLLOUT}.nnodes", f"{ROLLOUT}.n_gpus_per_node")
REPLICA = (f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.data_parallel_size")
ENGINE = f"{ROLLOUT}.checkpoint_engine.backend"
HYBRID = "actor_rollout_ref.hybrid_engine"
STRATEGY_OF_ACTOR = f"{ACTOR}.strategy"


@check("separate rollouts", "rollouts with GPUs of their own have some, get the weights once a batch, and by an engine "
       "that can", MODE, EVERY, BATCH, MINI_BATCH, *POOL, *REPLICA, ENGINE, HYBRID, STRATEGY_OF_ACTOR,
       f"{REFERENCE}.mode")  # fmt: skip
def separate(run: Run) -> Iterator[Finding]:
    """What verl asserts once Ray is up (PPOTrainerSeparateAsync.__init__), and a reference that has no place."""
    if run.get(MODE) != "separate_async":
        return
    group = "take the group, schedule=separate"
    batch, mini, every = (run.get(key) for key in (BATCH, MINI_BATCH, EVERY))
    if every * mini != batch:
        wrong = f"times {MINI_BATCH}={mini} is not {BATCH}={batch}, as verl wants it"
        yield Finding(EVERY, every, wrong, group)
    for key in POOL:
        if run.get(key) < 1:
            yield Finding(key, run.get(key), f"leaves rollouts without GPUs with {MODE}=separate_async", group)
    tensor, data = (run.get(key) for key in REPLICA)
    if run.get(POOL[1]) % (tensor * data) and (tensor * data) % max(1, run.get(POOL[1])):
        wrong = f"are no whole number of vLLM replicas of {tensor} x {data} GPUs ({REPLICA[0]}, {REPLICA[1]})"
        yield Finding(POOL[1], run.get(POOL[1]), wrong)
    if run.get(ENGINE) == "naive":
        wrong = f"cannot reach rollouts with GPUs of their own, as with {MODE}=separate_async"
        yield Finding(ENGINE, "naive", wrong, group)
    if run.get(STRATEGY_OF_ACTOR) != "fsdp2":
        yield Finding(STRATEGY_OF_ACTOR, run.get(STRATEGY_OF_ACTOR), f"must be fsdp2 with {MODE}=separate_async")
    if not run.get(HYBRID, True) and run.get(f"{REFERENCE}.mode") != "old":
        wrong = f"with {MODE}=separate_async puts the reference into another process than the actor that it is "
        wrong += f"renewed from ({REFERENCE}.mode={run.get(f'{REFERENCE}.mode')})"
        yield Finding(HYBRID, False, wrong, f"set it to true, or {REFERENCE}.mode=old")
