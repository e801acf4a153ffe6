"""Warnings that follow from a training step's metrics. rpg.console=progress shows them (rpg/run/progress.py)."""

from omegaconf import DictConfig

from rpg.logged import ADVANTAGES, MASS, MASS_ERROR, SCORES

EQUAL_STEPS = 2  # steps in a row without a reward that differs from the others, after which a warning is due
SAME = 1e-6  # a smaller difference of rewards is rounding
# Largest distance of MASS from 1 in a first step, in standard errors, and at least: rounded policies are normalised as
# well, nearly. A sampler that leaves tokens out is off by their mass, 0.05 on the toy task with top_p=0.8.
MASS_ERRORS, MASS_ROUNDING = 4, 5e-3


class StepWarnings:
    """Prints a warning if rewards teach nothing, or if rollouts cannot sample every token."""

    def __init__(self, config: DictConfig):
        """config: the full configuration of verl's trainer."""
        self._rollout = config.actor_rollout_ref.rollout
        self._mass_seen = config.trainer.v1.trainer_mode != "sync"  # of older policies it is too noisy
        self._equal = 0  # steps in a row

    def show(self, step: int, metrics: dict[str, float]) -> None:
        """Print the warnings of a step, which is the next one."""
        if MASS in metrics and not self._mass_seen:
            self._mass_seen = True
            if abs(metrics[MASS] - 1) > max(MASS_ERRORS * metrics[MASS_ERROR], MASS_ROUNDING):
                print(
                    f"warning: step {step}: {MASS}={metrics[MASS]:.4f} is not 1: the rollouts cannot sample every "
                    f"token (actor_rollout_ref.rollout.top_p={self._rollout.top_p}, top_k={self._rollout.top_k}, or an "
                    "agent loop or engine option). The gradient is biased (docs/off-policy.md)"
                )
        pairs = (SCORES, ADVANTAGES)
        scores, advantages = (metrics[name.format("max")] - metrics[name.format("min")] for name in pairs)
        self._equal = self._equal + 1 if min(scores, advantages) <= SAME else 0
        if self._equal == EQUAL_STEPS:
            which = f"every response got the reward {metrics[SCORES.format('max')]:g}"
            print(
                f"warning: step {step}: twice {which if scores <= SAME else 'rewards were equal in every group'}, so "
                "nothing can be learned. The reward may not see the form that the prompt asks for (try "
                "`rpg score`), or the problems are too hard or too easy"
            )
