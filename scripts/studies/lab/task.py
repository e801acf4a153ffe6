"""A small autoregressive decision problem; expected reward and KL of whole responses by dynamic programming.

A response is a sequence of tokens. Each token changes a state by its own permutation at each position, and the policy
sees prompt, position and state. The reward of a response is 1 if it ends in the prompt's goal, else 0. Under the
uniform policy all states are nearly equally likely, so the reward is sparse: about 1 / states.

Policies are tensors of log-probs, (seeds, prompts, vocabulary, positions, states).
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Task:
    """The problem.

    Attributes:
        next_state, previous_state: (positions, vocabulary, states), the state after a token, and the inverse.
        start: (prompts,), the state before the first token.
        goal: (prompts,), the final state that is rewarded.
    """

    next_state: Tensor
    previous_state: Tensor
    start: Tensor
    goal: Tensor

    @classmethod
    def make(cls, prompts: int = 12, vocabulary: int = 4, positions: int = 6, states: int = 16, seed: int = 7) -> Self:
        """Return a random task; the goal of a prompt is the reachable state of median probability."""
        generator = torch.Generator().manual_seed(seed)
        moves = [[torch.randperm(states, generator=generator) for _ in range(vocabulary)] for _ in range(positions)]
        next_state = torch.stack([torch.stack(row) for row in moves])
        start = torch.randint(states, (prompts,), generator=generator)
        task = cls(next_state, next_state.argsort(-1), start, torch.zeros_like(start))
        last = task.occupancy(torch.full((1, *task.shape), -math.log(vocabulary)))[-1][0]
        reachable = (last > 0).sum(1, keepdim=True)
        goal = last.argsort(dim=1, descending=True, stable=True).gather(1, reachable // 2)
        return cls(next_state, task.previous_state, start, goal.squeeze(1))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """prompts, vocabulary, positions, states"""
        positions, vocabulary, states = self.next_state.shape
        return len(self.start), vocabulary, positions, states

    def occupancy(self, log_probs: Tensor) -> list[Tensor]:
        """Return the probability of each state before each token and after the last: (seeds, prompts, states) each."""
        probs = log_probs.exp()
        state = torch.zeros_like(probs[:, :, 0, 0])
        state[:, torch.arange(len(self.start)), self.start] = 1.0
        states = [state]
        for position, previous in enumerate(self.previous_state):
            flow = state.unsqueeze(2) * probs[:, :, :, position]  # (seeds, prompts, vocabulary, states)
            state = flow.gather(-1, previous.expand_as(flow)).sum(2)
            states.append(state)
        return states

    def expected_reward(self, log_probs: Tensor) -> Tensor:
        """Return the expected reward, (seeds, prompts)."""
        last = self.occupancy(log_probs)[-1]
        return last.gather(-1, self.goal.expand(len(last), -1).unsqueeze(-1)).squeeze(-1)

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """Return KL(p, q) of whole responses by the chain rule, averaged over prompts: (seeds,)."""
        visits = torch.stack(self.occupancy(p)[:-1], dim=2)
        return (visits * (p.exp() * (p - q)).sum(2)).sum((2, 3)).mean(1)

    def sample(self, log_probs: Tensor, prompts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sample responses to prompts (seeds, responses).

        Returns:
            (seeds, responses, positions), the index of each token's log-prob in log_probs.flatten(1); and rewards,
            (seeds, responses).
        """
        _, vocabulary, positions, states = self.shape
        flat = log_probs.flatten(1)
        tokens = torch.arange(vocabulary) * positions * states
        state, places = self.start[prompts], []
        for position in range(positions):
            first = prompts * vocabulary * positions * states + position * states + state
            row = first.unsqueeze(-1) + tokens
            probs = flat.gather(1, row.flatten(1)).view(row.shape).exp_()
            # argmax of p / e with exponential e is a sample from p
            token = probs.div_(torch.empty_like(probs).exponential_(generator=generator)).argmax(-1)
            places.append(first + token * (positions * states))
            state = self.next_state[position, token, state]
        return torch.stack(places, -1), (state == self.goal[prompts]).to(log_probs.dtype)
