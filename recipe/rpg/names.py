"""The grammar of the launch scripts' names: what a name says, and whether a configuration is what it says.

name    = A "_7b" ["_" B] ["_schedulefree"] ["_7binstruct"] ["_async"]
        | A "_4b" ["_" B] ["_noiterref"] ["_schedulefree"] "_" ("2k" | "4k" | "8k") ["_async"]
        | A "_cpu" ["_" B] ["_schedulefree"] ["_smollm2"] ["_async"]
        | A "_7binstruct"                          the release's short form of A_7b_7binstruct
A       = "dapo" | "grpo" | "grpo_corrected" | "rfpp" | "rfppb" | "rpg"
B       = nothing                                  dapo, grpo, grpo_corrected; rpg without KL
        | beta                                     rfpp, rfppb
        | d beta ["_rf" ["_clip_ppo" [clip]]]      rpg
d       = "fkl" | "rkl" | "ufkl" | "urkl"
beta    = "1e-4" | "1e-3"
clip    = "_0.1_0.1" | "_0.2_0.28"                 without numbers: (0.1, 0.1)
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf

ACTOR = "actor_rollout_ref.actor"
LONGEST = 120  # characters of a run's name; a longer one ends in a digest of its overrides

DIVERGENCES = ("fkl", "rkl", "ufkl", "urkl")
BETAS = {"1e-4": 1e-4, "1e-3": 1e-3}
KL_TERMS = {d + beta: (d, value) for d in DIVERGENCES for beta, value in BETAS.items()}
CLIPS = {("0.1", "0.1"): (0.1, 0.1), ("0.2", "0.28"): (0.2, 0.28)}
CONTEXTS = {"2k": 2048, "4k": 4096, "8k": 8192}
METHODS = {
    ("dapo",): "dapo",
    ("grpo", "corrected"): "grpo_corrected",
    ("grpo",): "grpo",
    ("rfpp",): "rfpp",
    ("rfppb",): "rfppb",
    ("rpg",): "rpg",
}
ESTIMATORS = {
    "dapo": "grpo",
    "grpo": "grpo",
    "grpo_corrected": "grpo",
    "rfpp": "reinforce_plus_plus",
    "rfppb": "reinforce_plus_plus_baseline",
    "rpg": "rpg",
}
KL_LOSS_TYPES = {"grpo": "low_var_kl", "rfpp": "kl", "rfppb": "kl"}  # verl's own KL loss; None of it elsewhere
JUDGE = "reward.custom_reward_function.reward_kwargs.judge"
OPTIMIZERS = {"adamw": "AdamW", "schedulefree": "AdamWScheduleFree"}
CORRECTION = "algorithm.rollout_correction"
LEFT_OUT = {  # what a key is where the configuration lacks it (rpg.objectives.spec.LossSpec, which a test compares)
    f"{ACTOR}.policy_loss.clip_scope": "reward",
    f"{ACTOR}.policy_loss.clip_branch": "psi",
    f"{ACTOR}.policy_loss.z_old": 1.0,
}


class UnknownName(ValueError):
    """Not a name of the grammar; the message says which part and what could stand there."""


@dataclass(frozen=True)
class Run:
    """What a script's name says.

    loss: differentiable, rf or rf_clip_ppo for rpg; None for the methods that bring their own.
    divergence: of an RPG loss; None for verl's own loss.
    context: tokens of a response; None on a CPU, where the data set has its own length.
    model: name on the hub; None for the toy model.
    schedule: sync or async (the group's names).
    """

    method: str
    size: str
    loss: str | None = None
    divergence: str | None = None
    beta: float = 0.0
    clip: tuple[float, float] = (0.2, 0.28)
    reference: str = "old"
    optim: str = "adamw"
    context: int | None = None
    model: str | None = None
    schedule: str = "sync"

    @property
    def pi_old(self) -> str:
        """Asynchronous: without a clip the policy that sampled, with one the weight to it (docs/off-policy.md)."""
        if self.schedule == "sync":
            return "recomputed"
        return "behavior" if self.loss == "rf" else "decoupled"

    @property
    def lr(self) -> float | None:
        """1e-6 in the paper; 5e-7 in the release's REINFORCE scripts (7b), which keep it; None on a CPU."""
        if self.size == "cpu":
            return None
        return 5e-7 if self.size == "7b" and self.loss in ("rf", "rf_clip_ppo") else 1e-6

    @property
    def dynamic_sampling(self) -> bool:
        """Group filtering: all but GRPO; on a CPU DAPO only (dataset/toy.yaml)."""
        return self.method == "dapo" if self.size == "cpu" else not self.method.startswith("grpo")


class _Parts:
    """The parts of a name between underscores, taken from the left."""

    def __init__(self, name: str):
        self.name = name
        self.rest = name.split("_")

    def take(self, *words: str) -> bool:
        """Whether these words come next; they are taken if so."""
        found = tuple(self.rest[: len(words)]) == words
        if found:
            del self.rest[: len(words)]
        return found

    def choose(self, table: dict[Any, Any], what: str, otherwise: Any = None) -> Any:
        """The entry of table whose key, a word or a tuple of words, comes next; otherwise where it is given."""
        for words, value in table.items():
            if self.take(*((words,) if isinstance(words, str) else words)):
                return value
        if otherwise is not None:
            return otherwise
        raise self.error(f"{what}: {', '.join(w if isinstance(w, str) else '_'.join(w) for w in table)}")

    def error(self, wanted: str) -> UnknownName:
        found = repr(self.rest[0]) if self.rest else "the end"
        return UnknownName(f"{self.name!r} at {found}: expected {wanted} (grammar: recipe/rpg/names.py)")


def parse(name: str) -> Run:
    """What the script run_<name>.sh runs. Raises UnknownName for a name that the grammar does not have."""
    parts = _Parts(name)
    said: dict[str, Any] = {"method": parts.choose(METHODS, "a method")}
    if parts.rest == ["7binstruct"]:
        parts.rest = ["7b", "7binstruct"]
    said["size"] = parts.choose({"7b": "7b", "4b": "4b", "cpu": "cpu"}, "a size")
    _parse_objective(parts, said)
    if said["size"] == "4b" and said.get("beta") and said["method"] == "rpg" and parts.take("noiterref"):
        said["reference"] = "fixed"
    if parts.take("schedulefree"):
        said["optim"] = "schedulefree"
    if said["size"] == "7b":
        instruct = parts.take("7binstruct")
        said["model"] = "Qwen/Qwen2.5-7B-Instruct" if instruct else "Qwen/Qwen2.5-Math-7B"
        said["context"] = 2048
    elif said["size"] == "4b":
        said["model"] = "Qwen/Qwen3-4B"
        said["context"] = parts.choose(CONTEXTS, "a context")
    elif parts.take("smollm2"):
        said["model"] = "HuggingFaceTB/SmolLM2-135M-Instruct"
    if parts.take("async"):
        said["schedule"] = "async"
    if parts.rest:
        raise parts.error("the end")
    return Run(**said)


def _parse_objective(parts: _Parts, said: dict[str, Any]) -> None:
    """B of the grammar, and what the method implies where B is empty."""
    match said["method"]:
        case "grpo":
            said.update(clip=(0.2, 0.2), beta=1e-3)
        case "grpo_corrected":
            said.update(clip=(0.2, 0.2), beta=1e-3, divergence="urkl", reference="fixed")
        case "rfpp" | "rfppb":
            said["beta"] = parts.choose(BETAS, "beta")
        case "rpg":
            # without KL any divergence does; the release takes ufkl at beta 0
            said["divergence"], said["beta"] = parts.choose(KL_TERMS, "divergence and beta", ("ufkl", 0.0))
            said["loss"] = "differentiable"
            if said["beta"] and parts.take("rf", "clip", "ppo"):
                said["loss"] = "rf_clip_ppo"
                said["clip"] = parts.choose(CLIPS, "clip", (0.1, 0.1))
            elif said["beta"] and parts.take("rf"):
                said["loss"] = "rf"


def settings(run: Run) -> dict[str, Any]:
    """The keys of the configuration that the name decides, with their values."""
    low, high = run.clip
    values = {
        f"{ACTOR}.clip_ratio_low": low,
        f"{ACTOR}.clip_ratio_high": high,
        f"{ACTOR}.clip_ratio_c": 10.0,
        f"{ACTOR}.loss_agg_mode": "token-mean",
        f"{ACTOR}.entropy_coeff": 0,
        f"{ACTOR}.ppo_epochs": 1,
        f"{ACTOR}.optim.optimizer": OPTIMIZERS[run.optim],
        "algorithm.use_kl_in_reward": False,
        "algorithm.filter_groups.enable": run.dynamic_sampling,
        "reward.reward_kwargs.overlong_buffer_cfg.enable": not run.method.startswith("grpo"),
        JUDGE: "release",  # no name says another
        **_objective(run),
        **_off_policy(run),
    }
    if run.lr is not None:
        values[f"{ACTOR}.optim.lr"] = run.lr
    if run.context is not None:
        values["data.max_response_length"] = run.context
    return values


def _objective(run: Run) -> dict[str, Any]:
    """Estimator, loss and KL of the method."""
    kl_loss_type = KL_LOSS_TYPES.get(run.method)
    values: dict[str, Any] = {
        "algorithm.adv_estimator": ESTIMATORS[run.method],
        f"{ACTOR}.use_kl_loss": kl_loss_type is not None,
        f"{ACTOR}.policy_loss.loss_mode": "vanilla",
    }
    if kl_loss_type is not None:
        values[f"{ACTOR}.kl_loss_type"] = kl_loss_type
        values[f"{ACTOR}.kl_loss_coef"] = run.beta
    if run.divergence is not None:
        form = {"rf": "rpg_rf_{}", "rf_clip_ppo": "rpg_rf_{}_clip_ppo"}.get(run.loss or "", "rpg_{}")
        values[f"{ACTOR}.policy_loss.loss_mode"] = form.format(run.divergence)
        values[f"{ACTOR}.policy_loss.kl_coef"] = run.beta
        values["rpg.reference.mode"] = run.reference
        values.update(LEFT_OUT)
    return values


def _off_policy(run: Run) -> dict[str, Any]:
    """Schedule, how many batches rollouts are ahead, and pi_old."""
    ahead = {"trainer.v1.colocate_async.num_warmup_batches": 1}
    return {
        "trainer.v1.trainer_mode": {"sync": "sync", "async": "colocate_async"}[run.schedule],
        f"{CORRECTION}.bypass_mode": run.pi_old == "behavior",
        f"{CORRECTION}.rollout_is": "token" if run.pi_old == "decoupled" else None,
        **({f"{CORRECTION}.rollout_is_threshold": 2.0} if run.pi_old == "decoupled" else {}),
        **(ahead if run.schedule == "async" else {}),
    }


def differences(run: Run, config: DictConfig) -> dict[str, tuple[Any, Any]]:
    """Keys in which config is not what the name says: key -> (what the name says, what config has).

    A model is known by the last part of its path, so that a local copy is the same model; where the
    environment variable MODEL_PATH gives the path, it is taken to hold the model of the name.
    """
    found = {
        key: (said, actual)
        for key, said in settings(run).items()
        if (actual := OmegaConf.select(config, key, default=LEFT_OUT.get(key))) != said
    }
    key = "actor_rollout_ref.model.path"
    path = OmegaConf.select(config, key)
    if run.model and not os.environ.get("MODEL_PATH") and PurePath(path).name != PurePath(run.model).name:
        found[key] = (run.model, path)
    return found


def custom_name(name: str, found: dict[str, tuple[Any, Any]]) -> str:
    """The name of a run that is not what its script's name says: name-custom-key=value,..."""
    changed = ",".join(f"{key.split('.')[-1]}={PurePath(str(actual)).name}" for key, (_, actual) in found.items())
    if len(name) + len(changed) > LONGEST:
        changed = hashlib.sha256(changed.encode()).hexdigest()[:12]
    return f"{name}-custom-{changed}"
