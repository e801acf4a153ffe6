"""Schedule and pi_old: which policy sampled, which one the loss is told of, and whether that was meant."""

from collections.abc import Iterator
from math import ceil

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
