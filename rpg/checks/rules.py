"""Rules on settings that are valid on their own but inconsistent together: one table row per rule.

Over 300 lines because it is a table.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from rpg.checks.check import Check, Diagnostic, Level, Run
from rpg.checks.reward import EXTERNAL, is_ours
from rpg.checks.settings import ACTOR, CORRECTION, MODEL, OVERLONG, REF, ROLLOUT, SAMPLER
from rpg.names import ADVANTAGES
from rpg.names import LOSSES as LOSS_NAMES
from rpg.names import MOVING_REFERENCES as MOVING
from rpg.verl_plugin.reference_settings import KEY as REFERENCE
from rpg.verl_plugin.schedule_free import OPTIM, OPTIMIZER, PACKAGE, asked_for

BATCH = "data.train_batch_size"
MINI_BATCH = f"{ACTOR}.ppo_mini_batch_size"
DEVICES = ("trainer.n_gpus_per_node", "trainer.nnodes")
PARALLEL = f"{ACTOR}.ulysses_sequence_parallel_size"
REPLICA = (f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.data_parallel_size")
PROMPT, RESPONSE = "data.max_prompt_length", "data.max_response_length"
MANAGER = "reward.reward_manager.name"
LONGEST = "reward.reward_kwargs.max_resp_len"
FILTER = "algorithm.filter_groups"
FUNCTION = "reward.custom_reward_function.path"
METRICS = ("acc", "score", "reward")  # keys that rpg.rewards returns, and verl's name of the reward
LOSS = f"{ACTOR}.policy_loss.loss_mode"
ESTIMATOR = "algorithm.adv_estimator"
STRATEGY = f"{ACTOR}.strategy"
DYNAMIC = f"{ACTOR}.use_dynamic_bsz"
PENALTIES = (
    (f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef"),
    ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef"),
)
BETA, USUAL = "rpg.kl_coef", 1e-4  # rpg_trainer.yaml's default; methods with another coefficient do not change it
KL_COEF = f"{ACTOR}.policy_loss.kl_coef"
SCHEDULE = "trainer.v1.trainer_mode"
SEPARATE = "separate_async"
NAMED = "rpg.pi_old"
BYPASS, WEIGHT, THRESHOLD = (f"{CORRECTION}.{name}" for name in ("bypass_mode", "rollout_is", "rollout_is_threshold"))
REJECTION, LIMITS = f"{CORRECTION}.rollout_rs", f"{CORRECTION}.rollout_rs_threshold"
LOG_PROBS = f"{ROLLOUT}.calculate_log_probs"
UNWEIGHTED = ("bypass_mode",)  # the loss of verl that has its own weights and ignores rollout_is_weights
POOL = f"{ROLLOUT}.n_gpus_per_node"
ENGINE = f"{ROLLOUT}.checkpoint_engine.backend"
HYBRID = "actor_rollout_ref.hybrid_engine"
BACKEND = f"{ROLLOUT}.checkpoint_engine.custom_backend_module"
SOCKETS = "rpg.verl_plugin.rollout"


@dataclass(frozen=True)
class Rule:
    """A contradiction between settings.

    Attributes:
        key: the setting that the diagnostic names.
        reads: the other settings.
        broken: whether the values of key and reads contradict each other.
        wrong: message; {0} is the value of key, {1} that of the first of reads, and so on.
        remedy: what to do, with the same placeholders.
        near: names for a "did you mean" suggestion.
    """

    key: str
    reads: tuple[str, ...]
    broken: Callable[..., Any]
    wrong: str
    remedy: str = ""
    level: Level = "error"
    near: Sequence[str] = ()

    def ask(self, run: Run) -> Iterator[Diagnostic]:
        """Yield the diagnostic if the run breaks the rule."""
        values = [run.get(key) for key in (self.key, *self.reads)]
        if self.broken(*values):
            remedy = self.remedy.format(*values)
            if self.near:
                remedy = f"did you mean {difflib.get_close_matches(values[0].lower(), self.near, n=1, cutoff=0)[0]}?"
            yield Diagnostic(self.key, values[0], self.wrong.format(*values), remedy, self.level)


def pi_old(bypass: bool, weight: str | None) -> str:
    """Return the pi_old that verl's keys select, regardless of rpg.pi_old."""
    return "behavior" if bypass else "recomputed" if weight is None else "decoupled"


def _divergence(loss: str) -> str:
    return LOSS_NAMES[loss][0] if loss in LOSS_NAMES else ""


def _clip(loss: str) -> str:
    return LOSS_NAMES[loss][2] if loss in LOSS_NAMES else ""


def _kl_in_force(loss: str, in_loss: bool, in_reward: bool, ours: Any, of_loss: Any, of_reward: Any) -> Any:
    """Return the coefficient of the run's KL, 0 without one."""
    if loss in LOSS_NAMES:
        return ours
    return of_loss if in_loss else of_reward if in_reward else 0


def _misspelt(name: str, known: Sequence[str]) -> bool:
    """Return whether a name that begins with rpg is unknown; verl_validation.py looks up others in verl's registry."""
    return name.lower().startswith("rpg") and name not in known


def _too_short(length: int | None, prompt: int, response: int, times: int = 1) -> bool:
    return length is not None and length * times < prompt + response


SHORT = f"is below {PROMPT} + {RESPONSE} = {{1}} + {{2}} tokens"
PADS = "verl would pad the batch with made-up samples"
LENGTHEN = "raise it, or shorten the lengths"
AS_REFERENCE = f"with {REFERENCE}.mode={{1}}"
BIASED: tuple[tuple[bool, Level], ...] = ((True, "error"), (False, "warning"))  # whether it is an RPG loss
SEPARATELY = f"with {SCHEDULE}={SEPARATE}"

RULES: dict[tuple[str, str], list[Rule]] = {
    ("mini-batches", "the mini-batch divides the batch; otherwise verl pads it with made-up samples"): [
        Rule(MINI_BATCH, (BATCH,), lambda mini, batch: batch % mini,
             f"does not divide {BATCH}={{1}}; {PADS}", "make one a multiple of the other, the mini-batch the smaller"),
    ],
    ("ranks", "the ranks divide the responses of a mini-batch; the sequence-parallel size divides the ranks"): [
        Rule(PARALLEL, DEVICES, lambda parallel, gpus, nodes: gpus * nodes % parallel,
             "does not divide the {1} x {2} GPUs of trainer.n_gpus_per_node x trainer.nnodes"),
        Rule(MINI_BATCH, (f"{ROLLOUT}.n", PARALLEL, *DEVICES),
             lambda mini, n, parallel, gpus, nodes: gpus * nodes % parallel == 0
             and mini * n % (gpus * nodes // parallel),
             f"times {ROLLOUT}.n={{1}} responses are not divided by the ranks ({{3}} x {{4}} GPUs / {{2}}); {PADS}",
             "raise it, or use fewer GPUs"),
    ],
    ("rollout replicas", "tensor times data parallel size of a vLLM replica divides the GPUs"): [
        Rule(REPLICA[0], (REPLICA[1], *DEVICES), lambda tensor, data, gpus, nodes: gpus * nodes % (tensor * data),
             "x data_parallel_size={1} does not divide the {2} x {3} GPUs of trainer.n_gpus_per_node x trainer.nnodes"),
    ],
    ("rollout's sockets", "actor and rollout use one socket name; otherwise each waits for the other"): [
        Rule(EXTERNAL, (BACKEND,), lambda external, backend: backend == SOCKETS != external,
             f"must be {SOCKETS}, as {BACKEND} is", "set both or neither"),
        Rule(BACKEND, (EXTERNAL, SCHEDULE),
             lambda backend, external, mode: mode == SEPARATE and external == SOCKETS != backend,
             f"must be {SOCKETS} {SEPARATELY}, as {EXTERNAL} is",
             "keep the recipe's value, or import that module in yours and set both"),
    ],
    ("token budgets", "prompt plus response fits into every token budget"): [
        Rule(f"{ROLLOUT}.max_model_len", (PROMPT, RESPONSE), _too_short, SHORT, LENGTHEN),
        Rule(f"{ROLLOUT}.max_num_batched_tokens", (PROMPT, RESPONSE, f"{ROLLOUT}.enable_chunked_prefill"),
             lambda tokens, prompt, response, chunked: not chunked and _too_short(tokens, prompt, response),
             SHORT, LENGTHEN),
        *(Rule(f"{section}_max_token_len_per_gpu", (PROMPT, RESPONSE, PARALLEL, f"{switch}_dynamic_bsz"),
               lambda tokens, prompt, response, parallel, dynamic: dynamic
               and _too_short(tokens, prompt, response, parallel), SHORT, LENGTHEN)
          for section, switch in ((f"{ACTOR}.ppo", f"{ACTOR}.use"),
                                  (f"{ROLLOUT}.log_prob", f"{ROLLOUT}.log_prob_use"))),
    ],
    ("overlong shaping", "the overlong buffer is complete, shorter than the response, and has the manager dapo"): [
        Rule(MANAGER, (f"{OVERLONG}.enable",), lambda manager, enabled: enabled and manager != "dapo",
             f"does not read {OVERLONG}, which is enabled", f"use dapo, or set {OVERLONG}.enable=false"),
        Rule(LONGEST, (RESPONSE, f"{OVERLONG}.enable", MANAGER),
             lambda longest, response, enabled, manager: enabled and manager == "dapo" and longest != response,
             f"must be {RESPONSE}={{1}}, or the penalty begins at another length", "remove the override"),
        *(Rule(f"{OVERLONG}.{name}", (f"{OVERLONG}.enable",), lambda value, enabled: enabled and value is None,
               "is needed by the overlong buffer") for name in ("len", "penalty_factor", "log")),
        Rule(f"{OVERLONG}.len", (RESPONSE, f"{OVERLONG}.enable"),
             lambda length, response, enabled: enabled and length is not None and length >= response,
             f"is not below {RESPONSE}={{1}}: every response would be penalised",
             f"shorten it, or set {OVERLONG}.enable=false"),
    ],
    ("dynamic sampling", "filtering has a metric that the reward returns, and groups of two responses or more"): [
        Rule(f"{FILTER}.metric", (f"{FILTER}.enable",), lambda metric, enabled: enabled and metric is None,
             "is required for group filtering", "set it to acc"),
        Rule(f"{FILTER}.metric", (f"{FILTER}.enable", FUNCTION),
             lambda metric, enabled, path: enabled and is_ours(path) and metric is not None and metric not in METRICS,
             f"is not returned by rpg.rewards, which returns {', '.join(METRICS[:2])}", near=METRICS),
        Rule(f"{ROLLOUT}.n", (f"{FILTER}.enable",), lambda n, enabled: enabled and n == 1,
             f"with {FILTER}.enable=true drops every group: one response has no variance",
             "use 2 or more responses, or disable the filter"),
    ],
    ("resumption", "resume_from_path is set if, and only if, resume_mode is resume_path; verl ignores it otherwise"): [
        Rule("trainer.resume_from_path", ("trainer.resume_mode",),
             lambda path, mode: (mode == "resume_path") != (path is not None),
             "does not agree with trainer.resume_mode={1}",
             "set trainer.resume_mode=resume_path and name a run's global_step_N directory, or remove both"),
    ],
    ("saving", "checkpoints are not saved asynchronously, which verl does for Megatron only"): [
        Rule(f"{ACTOR}.checkpoint.async_save", (), lambda enabled: enabled is True,
             "is of Megatron: FSDP saves at once all the same, and verl then writes no tracker of the last checkpoint",
             "remove it"),
    ],
    ("validation", "a run with val_only has val_before_train"): [
        Rule("trainer.val_before_train", ("trainer.val_only",), lambda before, only: only and not before,
             "with trainer.val_only=true would train: verl ends the run after that validation", "set it to true"),
    ],
    ("loss name", "a loss name that begins with rpg is one of the sixteen"): [
        Rule(LOSS, (), lambda name: _misspelt(name, [*LOSS_NAMES]), "is not an RPG loss", near=[*LOSS_NAMES]),
    ],
    ("estimator name", "an estimator name that begins with rpg is rpg or rpg_batchmean"): [
        Rule(ESTIMATOR, (), lambda name: _misspelt(name, ADVANTAGES), "is not registered", near=ADVANTAGES),
    ],
    ("Z_old", "z_old differs from 1 only with an unnormalised divergence"): [
        Rule(f"{ACTOR}.policy_loss.z_old", (LOSS,),
             lambda mass, loss: mass not in (None, 1.0) and _divergence(loss) in ("fkl", "rkl"),
             "has no meaning for {1}, defined between normalised policies",
             "set it to 1.0, or choose a ufkl or urkl loss"),
    ],
    ("clip of the loss", "clip_scope and clip_branch are set only for a loss that reads them"): [
        Rule(f"{ACTOR}.policy_loss.clip_scope", (LOSS,),
             lambda scope, loss: scope is not None and _clip(loss) != "dual",
             f"is not read by {LOSS}={{1}}", "remove it, or choose a loss rpg_DIVERGENCE"),
        Rule(f"{ACTOR}.policy_loss.clip_branch", (LOSS,),
             lambda branch, loss: branch is not None and _clip(loss) != "ppo",
             f"is not read by {LOSS}={{1}}", "remove it, or choose a loss rpg_rf_DIVERGENCE_clip_ppo"),
    ],
    ("KL counted once", "verl's KL loss and KL in the reward are off, or have coefficient 0, beside an RPG loss"): [
        Rule(switch, (coefficient, LOSS),
             lambda enabled, coefficient, loss: enabled and coefficient != 0 and loss in LOSS_NAMES,
             f"with {coefficient}={{1}} beside {LOSS}={{2}} counts the KL twice: the RPG loss contains its own",
             f"set it to false; the strength of the KL is {KL_COEF}")
        for switch, coefficient in PENALTIES
    ],
    ("beta reaches the loss", "a changed rpg.kl_coef is the coefficient that the loss uses"): [
        Rule(LOSS, (KL_COEF, BETA), lambda loss, coefficient, beta: loss in LOSS_NAMES and coefficient is None,
             f"is set, and {BETA}={{2}} does not reach it: the loss would take {USUAL}",
             "choose the loss by method=rpg, rpg_rf or rpg_rf_clip_ppo"),
        Rule(BETA, (LOSS, PENALTIES[0][0], PENALTIES[1][0], KL_COEF, PENALTIES[0][1], PENALTIES[1][1]),
             lambda beta, *run: beta not in (USUAL, _kl_in_force(*run)),
             f"reaches no KL: an RPG loss takes {KL_COEF}={{4}}, another {PENALTIES[0][1]}={{5}} if {PENALTIES[0][0]}, "
             f"or {PENALTIES[1][1]}={{6}} if {PENALTIES[1][0]}", "remove it, or set that key", "warning"),
    ],
    ("reference", "the settings of pi_ref agree: mode, trigger, engine, adapter"): [
        *(Rule(f"{REFERENCE}.{name}", (f"{REFERENCE}.mode",),
               lambda value, mode, name=name: mode == name and value is None, f"must be {wanted} {AS_REFERENCE}")
          for name, wanted in (("every_k", "a number of optimizer steps"), ("kl_target", "nats per token"))),
        *(Rule(f"{REFERENCE}.{name}", (f"{REFERENCE}.mode",),
               lambda value, mode, name=name: mode != name and value is not None,
               f"is not read {AS_REFERENCE}", f"remove it, or use reference={name}")
          for name in ("every_k", "kl_target")),
        *(Rule(f"actor_rollout_ref.{role}.strategy", (f"{REFERENCE}.mode",),
               lambda strategy, mode: mode != "old" and strategy != "fsdp2", f"must be fsdp2 {AS_REFERENCE}")
          for role in ("actor", "ref")),
        Rule(f"{REF}.fsdp_config.fsdp_size", (f"{REFERENCE}.mode", f"{ACTOR}.fsdp_config.fsdp_size"),
             lambda size, mode, actors: mode != "old" and size != actors,
             f"must be the actor's {{2}} {AS_REFERENCE}: each rank copies its own shards"),
        Rule(f"{MODEL}.lora_rank", (f"{REFERENCE}.mode",), lambda rank, mode: mode in MOVING and rank,
             f"{AS_REFERENCE}: pi_ref of an adapter is the base model, which cannot be renewed",
             f"set it to 0, or {REFERENCE}.mode to old or fixed"),
        Rule(f"{MODEL}.lora_adapter_path", (f"{REFERENCE}.mode",), lambda path, mode: mode != "old" and path,
             f"{AS_REFERENCE}: pi_ref would be the base model, and the run begins with this adapter",
             f"merge it into the model, or set {REFERENCE}.mode=old"),
        Rule(f"{REF}.log_prob_micro_batch_size_per_gpu", (f"{REFERENCE}.mode", DYNAMIC),
             lambda size, mode, dynamic: mode != "old" and not dynamic and size is None,
             f"must be a number of sequences {AS_REFERENCE}, as {DYNAMIC} is false"),
    ],
    # verl's FSDP engine reads only lora_rank; trainer and rollouts also read lora.rank
    ("LoRA", "the adapter is trained, and the rollouts use it"): [
        Rule(f"{MODEL}.lora.rank", (STRATEGY,), lambda rank, strategy: rank and strategy in ("fsdp", "fsdp2"),
             "is Megatron's key: with {1} no adapter would be trained", f"set {MODEL}.lora_rank"),
        Rule(f"{MODEL}.lora_adapter_path", (f"{MODEL}.lora_rank",), lambda path, rank: path and not rank,
             "is not loaded without a rank", f"set {MODEL}.lora_rank to the adapter's"),
        # without merge verl sends only the base model to these rollouts
        Rule(f"{MODEL}.lora_rank", (f"{MODEL}.lora.merge", "trainer.v1.trainer_mode"),
             lambda rank, merge, mode: rank and not merge and mode == "separate_async",
             "with {2} reaches no rollout: verl sends the base model without the adapter",
             f"set {MODEL}.lora.merge=true"),
    ],
    ("schedule-free", "schedule-free AdamW runs with fsdp2 and without a second warm-up"): [
        Rule(f"{OPTIM}.optimizer", (f"{OPTIM}.optimizer_impl",),
             lambda name, package: name == OPTIMIZER and not asked_for(package),
             f"needs optimizer_impl={PACKAGE}, and it is {{1}}", "take optim=schedulefree"),
        *(Rule(key, (f"{OPTIM}.optimizer_impl",),
               lambda value, package, wanted=wanted: asked_for(package) and value != wanted,
               f"must be {wanted} with optimizer_impl={PACKAGE}")
          for key, wanted in ((f"{OPTIM}.optimizer", OPTIMIZER), (STRATEGY, "fsdp2"),
                              (f"{OPTIM}.lr_scheduler_type", "constant"))),
        *(Rule(f"{OPTIM}.{name}", (f"{OPTIM}.optimizer_impl",),
               lambda steps, package: asked_for(package) and steps > 0,
               f"is verl's learning-rate warm-up, and {OPTIMIZER} has its own",
               f"set {name}={nothing}; the warm-up is {OPTIM}.override_optimizer_config.warmup_steps")
          for name, nothing in (("lr_warmup_steps", "0"), ("lr_warmup_steps_ratio", "0.0"))),
    ],
    # verl silently skips weights and rejection without log-probs or threshold (PPOTrainer._compute_advantage)
    ("pi_old", "rpg.pi_old agrees with verl's keys, and the importance weights reach the loss"): [
        Rule(NAMED, (BYPASS, WEIGHT), lambda named, *keys: named not in (None, pi_old(*keys)),
             f"is not what {BYPASS}={{1}} with {WEIGHT}={{2}} do", "use the group, pi_old={0}"),
        Rule(WEIGHT, (BYPASS,), lambda weight, bypass: bypass and weight is not None,
             f"is not read with {BYPASS}=true: the ratio to the rollout policy already is the weight",
             "use pi_old=behavior or pi_old=decoupled"),
        Rule(LOG_PROBS, (BYPASS, WEIGHT), lambda kept, *keys: not kept and pi_old(*keys) != "recomputed",
             "leaves pi_old without the log-probs of the rollout policy", "set it to true"),
        Rule(THRESHOLD, (BYPASS, WEIGHT), lambda threshold, *keys: threshold is None and pi_old(*keys) == "decoupled",
             f"with {WEIGHT}={{2}} leaves the weights out: verl computes none without a threshold",
             "set it to 2.0, or a large number for weights that are never truncated"),
        Rule(LOSS, (BYPASS, WEIGHT), lambda loss, *keys: loss in UNWEIGHTED and pi_old(*keys) == "decoupled",
             f"does not multiply with the weights of {WEIGHT}={{2}}", f"choose another loss, or set {WEIGHT}=null"),
    ],
    ("rejection sampling", "rollout_rs has a threshold and takes effect"): [
        Rule(LIMITS, (REJECTION,), lambda limits, named: named is not None and limits is None,
             f"is needed by {REJECTION}={{1}}", "set one for all criteria, or one for each, separated by commas"),
        Rule(REJECTION, (BYPASS,), lambda named, bypass: named is not None and bypass,
             f"is not read with {BYPASS}=true: there is no second policy to compare with the rollout policy",
             "use pi_old=recomputed or pi_old=decoupled"),
        Rule(LOG_PROBS, (REJECTION, BYPASS), lambda kept, named, bypass: named is not None and not bypass and not kept,
             f"leaves {REJECTION}={{1}} out: verl lacks the log-probs of the rollout policy", "set it to true"),
    ],
    # otherwise the weight from rollout policy to recomputed policy is silently missing
    ("asynchronous pi_old", "an RPG loss on asynchronous rollouts uses recomputed only if that is set"): [
        Rule(SCHEDULE, (LOSS, NAMED, BYPASS, WEIGHT),
             lambda mode, loss, named, *keys, ours=ours: mode != "sync" and named != "recomputed"
             and pi_old(*keys) == "recomputed" and (loss in LOSS_NAMES) == ours,
             "trains on samples of older policies with pi_old recomputed: the gradient of {1} would be biased in "
             "proportion to their age (docs/off-policy.md)",
             "choose pi_old=behavior (the rollout policy; without a clip), pi_old=decoupled (recomputed, weighted; "
             "with a clip), pi_old=recomputed by that name, or schedule=sync", level)
        for ours, level in BIASED
    ],
    # verl counts both the step that requested a prompt and the step that trains on it (ReplayBufferAsync)
    ("staleness", "the age limit of responses allows for the batches that rollouts are ahead"): [
        Rule(f"trainer.v1.{mode}.num_warmup_batches", (f"{SAMPLER}_threshold", f"{SAMPLER}_strategy", SCHEDULE),
             lambda ahead, oldest, strategy, schedule, mode=mode: schedule == mode and strategy == "drop"
             and oldest is not None and ceil(ahead) + 1 > oldest,
             f"makes every response older than {SAMPLER}_threshold={{1}} when it is trained on: all would be dropped",
             f"lower it, or raise {SAMPLER}_threshold")
        for mode in ("colocate_async", SEPARATE)
    ],
    # verl asserts the other conditions after Ray has started (PPOTrainerSeparateAsync.__init__)
    ("separate rollouts", "rollouts use all of their own GPUs; actor and reference share one fsdp2 process"): [
        Rule(POOL, (SCHEDULE, *REPLICA),
             lambda gpus, mode, tensor, data: mode == SEPARATE and gpus % (tensor * data)
             and tensor * data % max(1, gpus),
             f"is not a whole number of vLLM replicas of {{2}} x {{3}} GPUs ({', '.join(REPLICA)})"),
        Rule(STRATEGY, (SCHEDULE,), lambda strategy, mode: mode == SEPARATE and strategy != "fsdp2",
             f"must be fsdp2 {SEPARATELY}"),
        Rule(HYBRID, (SCHEDULE, f"{REFERENCE}.mode"),
             lambda hybrid, mode, reference: mode == SEPARATE and hybrid is False and reference != "old",
             f"{SEPARATELY} puts the reference into another process than the actor ({REFERENCE}.mode={{2}})",
             f"set it to true, or {REFERENCE}.mode=old"),
    ],
}  # fmt: skip


def _check(name: str, sentence: str, rules: list[Rule]) -> Check:
    def ask(run: Run) -> Iterator[Diagnostic]:
        for rule in rules:
            yield from rule.ask(run)

    return Check(name, sentence, "cheap", "settings", ask)


CHECKS = [_check(name, sentence, rules) for (name, sentence), rules in RULES.items()]
