"""Trains one setting for many seeds at once, with samples of an older policy and several optimizer steps per batch."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from rpg.names import RHO_BOUND
from rpg.objectives import LossSpec, group_mean_advantages, later_kl_baseline, token_loss
from scripts.studies.lab.pi_old import old_policy
from scripts.studies.lab.task import Task
from scripts.studies.lab.verl_losses import verl_kl_loss, verl_loss

RANK = 4  # rank of the logits over prompts, below the number of prompts, so that prompts share parameters
GROUP = 8  # responses per prompt
GROUPS = 4  # prompts per mini-batch
VERLS = (
    "vanilla",
    "cispo",
    "gspo",
)  # verl's losses that treat each token or response independently, so that seeds do not interact
# reward minus the group's mean; also divided by the group's standard deviation (GRPO, DAPO); whitened over the batch
# (REINFORCE++)
ADVANTAGES = ("mean", "std", "whitened")
REFERENCES = ("old", "fixed", "every_k", "kl_target")
PASS_AT = 8


@dataclass(frozen=True)
class Setting:
    """One configuration of a training.

    Attributes:
        loss: one of rpg.objectives.LOSS_NAMES or VERLS.
        lr: Adam's learning rate.
        steps: optimizer steps per batch, each on its own mini-batch.
        staleness: age in batches of the sampling policy; 0: the policy at the beginning of the batch.
        pi_old, level, threshold: see scripts.studies.lab.pi_old.
        kl_coef: beta. For verl's losses the coefficient of GRPO's k3, which needs a reference other than "old".
        reference: "old": pi_old; "fixed": the uniform policy at the start of training; "every_k": replaced by the
            current policy every `renew` batches; "kl_target": replaced, per seed, if a batch begins with a
            KL(pi, pi_ref) above `renew`.
        kl_scope: as in LossSpec.
        kl_baseline: whether RKL's and URKL's KL has the group's mean as baseline: later_kl_baseline with kl_scope
            "response"; with "token" the mean of -log rho of the token itself. Not with reference "old", where it is 0.
        kl_in_reward: whether kl_coef times the response's log pi_old - log pi_ref is subtracted from its reward instead
            (k1; verl's use_kl_in_reward), and the loss has no KL.
        renew: batches for "every_k", nats for "kl_target".
        k3_clamped: whether the value of k3 is clamped at 10, as verl does.
        advantages: one of ADVANTAGES.
        batches: number of batches; 0: as many as give Scale.updates optimizer steps.
        clip_low, clip_high, clip_c: as in LossSpec and verl.
    """

    loss: str
    lr: float = 0.05
    steps: int = 1
    staleness: int = 0
    pi_old: str = "behavior"
    level: str = "token"
    threshold: float = math.inf
    kl_coef: float = 0.0
    kl_scope: str = "token"
    kl_baseline: bool = False
    kl_in_reward: bool = False
    reference: str = "old"
    renew: float = 8
    k3_clamped: bool = True
    clip_low: float = 0.2
    clip_high: float = 0.28
    clip_c: float = 10.0
    advantages: str = "mean"
    batches: int = 0

    def __post_init__(self) -> None:
        if self.advantages not in ADVANTAGES or self.reference not in REFERENCES:
            raise ValueError(f"{self}: advantages are {', '.join(ADVANTAGES)}; references are {', '.join(REFERENCES)}")
        if self.reference == "old" and (self.kl_baseline or self.kl_in_reward):
            raise ValueError(f"{self}: with reference 'old' the baseline and the KL in the reward are 0")


@dataclass(frozen=True)
class Scale:
    """Number of seeds, optimizer steps (without `batches`) and measurements; seed of the generator."""

    seeds: int = 64
    updates: int = 256
    measured: int = 16
    seed: int = 0


class Batch(NamedTuple):
    """The tokens of a batch; all (seeds, responses, positions), None for unused tensors."""

    behavior: Tensor
    old_log_prob: Tensor
    advantages: Tensor
    ref_log_prob: Tensor | None
    weights: Tensor | None
    kl_baseline: Tensor | None = None

    def part(self, part: slice) -> Self:
        """Return a mini-batch: these responses of each seed."""
        return Batch(*(None if tensor is None else tensor[:, part] for tensor in self))  # type: ignore[arg-type]


class Measured(NamedTuple):
    """One value per seed, (seeds,), at or up to the end of training.

    Attributes:
        reward: expected reward of the last policy, exact.
        reward_mean: the same averaged over evenly spaced measurements, a measure of learning speed.
        unsolved: share of prompts whose expected reward is below 0.1.
        gap: maximum of J minus J; J is E[R] - beta KL(pi, uniform) with reference "fixed", else E[R].
        gap_forward: the same with KL(uniform, pi) in J; equal to gap without a beta in J.
        kl: largest KL (of responses, exact) of the sampling policy from the current one.
        kl_start: KL (of responses, exact) of the last policy from the uniform initial one.
        entropy: of the last policy's responses, in nats.
        pass_at_8: probability that one of 8 responses of the last policy is rewarded, exact; mean over prompts.
        ess: effective sample size of the token weights pi_theta / pi_behaviour, (sum w)^2 / (n sum w^2); mean.
        silenced: share of tokens with an advantage but without a gradient; mean.
    """

    reward: Tensor
    reward_mean: Tensor
    unsolved: Tensor
    gap: Tensor
    gap_forward: Tensor
    kl: Tensor
    kl_start: Tensor
    entropy: Tensor
    pass_at_8: Tensor
    ess: Tensor
    silenced: Tensor


def make_loss(setting: Setting) -> Callable[[Tensor, Batch], Tensor]:
    """Return the loss as a function of log-probs and a mini-batch: the sum over seeds of means over tokens."""
    clip = {"clip_low": setting.clip_low, "clip_high": setting.clip_high, "clip_c": setting.clip_c}
    if setting.loss in VERLS:
        verls = verl_loss(setting.loss, **clip)
        k3 = verl_kl_loss if setting.k3_clamped else k3_loss

        def loss_of_verl(log_prob: Tensor, batch: Batch) -> Tensor:
            log_probs, _, old, advantages, reference, weights, _ = (
                None if tensor is None else tensor.flatten(0, 1) for tensor in (log_prob, *batch)
            )
            loss = verls(log_probs, old, advantages, weights)
            if setting.kl_coef:
                loss = loss + setting.kl_coef * k3(log_probs, reference).mean()  # type: ignore[arg-type]
            return loss * len(log_prob)  # verl's loss is the mean over all seeds

        return loss_of_verl
    beta = 0.0 if setting.kl_in_reward else setting.kl_coef
    spec = LossSpec.parse(setting.loss, kl_coef=beta, kl_scope=setting.kl_scope, rho_bound=RHO_BOUND, **clip)

    def loss(log_prob: Tensor, batch: Batch) -> Tensor:
        losses, _ = token_loss(
            spec,
            log_prob=log_prob,
            old_log_prob=batch.old_log_prob,
            advantages=batch.advantages,
            ref_log_prob=batch.ref_log_prob,
            kl_baseline=batch.kl_baseline,
        )
        if batch.weights is not None:
            losses = losses * batch.weights
        return losses.sum() / losses[0].numel()

    return loss


def k3_loss(log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """Return GRPO's k3 of each token, without verl's clamp."""
    log_ratio = ref_log_prob - log_prob
    return log_ratio.exp() - log_ratio - 1


class Policy:
    """logits = prompt vectors x table, a two-layer linear network per seed; initially uniform.

    The prompt vectors have rank RANK, so that prompts share parameters.
    """

    def __init__(self, task: Task, seeds: int, lr: float, generator: torch.Generator):
        prompts, *rest = self._shape = task.shape
        self.prompts = (torch.randn(seeds, prompts, RANK, generator=generator) / RANK**0.5).requires_grad_()
        self.table = torch.zeros(seeds, RANK, math.prod(rest), requires_grad=True)
        self.optimizer = torch.optim.Adam([self.prompts, self.table], lr=lr)

    def log_probs(self) -> Tensor:
        """Return log-probs, (seeds, prompts, vocabulary, positions, states)."""
        return (self.prompts @ self.table).view(-1, *self._shape).log_softmax(2)

    def step(self, loss: Tensor) -> None:
        """Run one optimizer step; Adam is element-wise, so that seeds do not interact."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def train(setting: Setting, scale: Scale, task: Task | None = None) -> Measured:
    """Train all seeds of one setting; deterministic given setting, scale and task."""
    task = task or Task.make()
    generator = torch.Generator().manual_seed(scale.seed)
    policy, loss = Policy(task, scale.seeds, setting.lr, generator), make_loss(setting)
    with torch.no_grad():
        uniform = policy.log_probs()
    reference, batches = uniform, 0
    older = [uniform]  # the policies at the beginnings of batches; the first one samples
    updates = setting.batches * setting.steps or scale.updates
    every, record, update = max(1, updates // scale.measured), Record(task, uniform), 0
    while update < updates:
        with torch.no_grad():
            anchor = policy.log_probs()
        older = [*older, anchor][-(setting.staleness + 1) :]
        reference = next_reference(setting, task, batches, anchor, reference)
        places, batch = sample_batch(setting, task, older[0], anchor, reference, generator)
        batches += 1
        for k in range(min(setting.steps, updates - update)):
            part = slice(k * GROUPS * GROUP, (k + 1) * GROUPS * GROUP)
            log_prob = at(policy.log_probs(), places[:, part])
            log_prob.retain_grad()
            mini_batch = batch.part(part)
            policy.step(loss(log_prob, mini_batch))
            update += 1
            if update % every == 0:
                record.tokens(log_prob, mini_batch)
                with torch.no_grad():
                    record.policy(policy.log_probs(), older[0])
    return record.result(setting.kl_coef if setting.reference == "fixed" else 0.0)


def at(log_probs: Tensor, places: Tensor) -> Tensor:
    """Return the log-probs of tokens; indices as from Task.sample."""
    return log_probs.flatten(1).gather(1, places.flatten(1)).view(places.shape)


def next_reference(setting: Setting, task: Task, batches: int, anchor: Tensor, reference: Tensor) -> Tensor:
    """Return the reference of a batch that begins with `anchor`, after `batches` batches."""
    if setting.reference == "every_k" and batches % setting.renew == 0:
        return anchor
    if setting.reference == "kl_target":
        far = task.kl(anchor, reference) > setting.renew
        return torch.where(far.view(-1, 1, 1, 1, 1), anchor, reference)
    return reference


def sample_batch(
    setting: Setting, task: Task, sampler: Tensor, anchor: Tensor, reference: Tensor, generator: torch.Generator
) -> tuple[Tensor, Batch]:
    """Sample setting.steps mini-batches; return the indices of the tokens' log-probs, and the batch."""
    seeds, prompts = sampler.shape[:2]
    drawn = torch.rand(seeds, setting.steps, prompts, generator=generator).argsort(-1)[..., :GROUPS]
    places, rewards = task.sample(sampler, drawn.repeat_interleave(GROUP, -1).flatten(1), generator)
    behavior = at(sampler, places)
    old, weights = old_policy(
        setting.pi_old, behavior=behavior, anchor=at(anchor, places), level=setting.level, threshold=setting.threshold
    )
    ref_log_prob, baseline = None if setting.reference == "old" else at(reference, places), None
    if ref_log_prob is not None and setting.kl_in_reward:
        rewards = rewards - setting.kl_coef * (old - ref_log_prob).sum(-1)
    if ref_log_prob is not None and setting.kl_baseline:
        baseline = kl_baseline(setting.kl_scope, old, ref_log_prob)
    advantages = advantages_of(setting.advantages, rewards).unsqueeze(-1).expand(places.shape)
    return places, Batch(behavior, old, advantages.contiguous(), ref_log_prob, weights, baseline)


def kl_baseline(scope: str, old_log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """Return the group's mean of what the baseline of a KL scope is of; all (seeds, responses, positions)."""
    if scope == "token":
        groups = (old_log_prob - ref_log_prob).unflatten(1, (-1, GROUP))
        return groups.mean(2, keepdim=True).expand_as(groups).flatten(1, 2)
    old, ref = old_log_prob.flatten(0, 1), ref_log_prob.flatten(0, 1)
    groups = torch.arange(len(old) // GROUP).repeat_interleave(GROUP)
    return later_kl_baseline(old, ref, torch.ones_like(old), groups).view(old_log_prob.shape)


def advantages_of(kind: str, rewards: Tensor) -> Tensor:
    """Return advantages, one of ADVANTAGES, of rewards (seeds, responses); GROUP consecutive responses per prompt."""
    if kind == "whitened":
        variance, mean = torch.var_mean(rewards, 1, keepdim=True)
        return (rewards - mean) * (variance + 1e-8).rsqrt()  # verl's epsilon, also below
    one_token = rewards.reshape(-1, 1)
    groups = torch.arange(len(one_token) // GROUP).repeat_interleave(GROUP)
    advantages = group_mean_advantages(one_token, torch.ones_like(one_token), groups).view(rewards.shape)
    if kind == "std":
        advantages = advantages / (rewards.unflatten(1, (-1, GROUP)).std(-1).repeat_interleave(GROUP, 1) + 1e-6)
    return advantages


class Record:
    """Collects the measurements of a training."""

    def __init__(self, task: Task, start: Tensor):
        self._task, self._last, self._start = task, start, start
        self._rewards = [task.expected_reward(start).mean(1)]
        self._kl: list[Tensor] = []
        self._ess: list[Tensor] = []
        self._silenced: list[Tensor] = []

    def tokens(self, log_prob: Tensor, batch: Batch) -> None:
        """Record weights against the sampling policy and tokens without a gradient, after a backward pass."""
        w = (log_prob.detach() - batch.behavior).clamp(-20, 20).exp().flatten(1)
        self._ess.append(w.sum(1).square() / (w.shape[1] * w.square().sum(1)))
        with_advantage = batch.advantages != 0
        silenced = with_advantage & (log_prob.grad == 0)
        self._silenced.append(silenced.sum((1, 2)) / with_advantage.sum((1, 2)).clamp(min=1))

    def policy(self, log_probs: Tensor, sampler: Tensor) -> None:
        """Record the policy after an optimizer step."""
        self._last = log_probs
        self._rewards.append(self._task.expected_reward(log_probs).mean(1))
        self._kl.append(self._task.kl(sampler, log_probs))

    def result(self, beta: float) -> Measured:
        """Return the measurements; beta: coefficient in J, for the gap. NaN for statistics without samples."""
        kl_start, rewards = self._task.kl(self._last, self._start), self._task.expected_reward(self._last)
        nothing = [torch.full_like(kl_start, math.nan)]
        gap = self._task.best(beta) - (self._rewards[-1] - beta * kl_start)
        forward = self._rewards[-1] - beta * self._task.kl(self._start, self._last)
        return Measured(
            reward=self._rewards[-1],
            reward_mean=torch.stack(self._rewards).mean(0),
            unsolved=(rewards < 0.1).double().mean(1),
            gap=gap,
            gap_forward=self._task.best_forward(beta) - forward if beta else gap,
            kl=torch.stack(self._kl).amax(0),
            kl_start=kl_start,
            entropy=self._task.entropy(self._last),
            pass_at_8=(1 - (1 - rewards.clamp(max=1)) ** PASS_AT).mean(1),
            ess=torch.stack(self._ess or nothing).mean(0),
            silenced=torch.stack(self._silenced or nothing).mean(0),
        )
