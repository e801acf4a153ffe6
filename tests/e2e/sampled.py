"""Reads the training data of an asynchronous step from its checkpoint, and finds the policy that wrote each token.

Where attention is nearly tied, each layer of the toy model amplifies rounding. Of 187,392 log-probs of vLLM, 994 were
more than 3e-5 from the float64 ones, 3 more than 2e-4, none more than 3e-4; with attention three times as sharp, one in
30,000 differed by more than 1e-3 between vLLM and float32 transformers, under one policy that never changed. Such a
token is therefore judged by what rounding does to it. One of another policy is off by 0.01 to 10, with its neighbours.
"""

import copy
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from tests.e2e import short_run
from tests.e2e.conftest import TOY

BATCH = 64  # responses at once
# What float32 loses in a layer, as a relative change of each weight; and how many times its effect a log-prob of vLLM
# may be away (17 at most, of 496 tokens that were off by more than 3e-5).
LOSS, COPIES, LIMIT = 2.0**-22, 8, 50


@dataclass(frozen=True)
class Response:
    """A response with its prompt and the loss's inputs.

    Attributes:
        group: id of its prompt's group.
        prompt, tokens: ids, (tokens,).
        rollout_log_probs, old_log_probs: (tokens,), as verl kept them.
        first, last: steps of the policies that began and ended it; 0: the initial one.
    """

    group: str
    prompt: torch.Tensor
    tokens: torch.Tensor
    rollout_log_probs: torch.Tensor
    old_log_probs: torch.Tensor
    first: int
    last: int


def trained_on(run: Path, step: int) -> list[Response]:
    """Return a step's responses, which verl saves with that step's checkpoint and removes afterwards."""
    [file] = (run / f"global_step_{step}/transfer_queue/simple_storage").glob("su_*.pkl")
    held = pickle.loads(file.read_bytes())["field_data"]  # of our own run
    return [
        Response(
            str(held["uid"][row]),
            held["prompts"][row],
            held["responses"][row],
            held["rollout_log_probs"][row],
            held["old_log_probs"][row],
            held["extra_fields"][row]["min_global_steps"],
            held["extra_fields"][row]["max_global_steps"],
        )
        for row in held["advantages"]  # those that only wait have none
    ]


class Policies:
    """The policies of a run by step, in float64."""

    def __init__(self, run: Path):
        self._run, self._made = run, {}

    def _load(self, step: int) -> Any:
        model = AutoModelForCausalLM.from_pretrained(TOY / "model", dtype=torch.float32)
        if step:
            model.load_state_dict(short_run.actor(self._run, step))
        return model

    def _model(self, step: int) -> Any:
        if step not in self._made:
            self._made[step] = self._load(step).double().eval()
        return self._made[step]

    def log_probs(self, step: int, responses: list[Response]) -> list[torch.Tensor]:
        """Return log pi of each response's tokens at temperature 1, by transformers."""
        return _log_probs(self._model(step), responses)

    @torch.no_grad()
    def rounding(self, step: int, response: Response) -> torch.Tensor:
        """Return how far rounding moves log pi of each token, (tokens,): the root mean square over changed weights."""
        model, [exact] = copy.deepcopy(self._model(step)), self.log_probs(step, [response])
        weights = {name: tensor.clone() for name, tensor in model.named_parameters()}
        generator, moved = torch.Generator().manual_seed(0), []
        for _ in range(COPIES):
            for name, tensor in model.named_parameters():
                noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
                tensor.copy_(weights[name] * (1 + LOSS * noise))
            moved.append(_log_probs(model, [response])[0] - exact)
        return torch.stack(moved).square().mean(0).sqrt()

    def writers(self, response: Response, log_probs: dict[int, torch.Tensor], tolerance: float) -> list[int] | None:
        """As written_by; a response that no assignment matches is judged again with each token's own rounding."""
        if (found := written_by(response, log_probs, tolerance)) is not None:
            return found
        steps = range(response.first, response.last + 1)
        own = {step: (LIMIT * self.rounding(step, response)).clamp(min=tolerance) for step in steps}
        return written_by(response, log_probs, own)

    def trace(self, step: int, response: Response) -> str:
        """Return a table of how far each token of a response is from the policies before `step`, and its rounding."""
        log_probs = {number: self.log_probs(number, [response])[0] for number in range(step)}
        rounding = self.rounding(response.last, response)
        lines = [f"group {response.group}, named policies {response.first} to {response.last}; policies {[*log_probs]}"]
        for token, of_rollout in enumerate(response.rollout_log_probs):
            away = " ".join(f"{abs(row[token] - of_rollout):.0e}" for row in log_probs.values())
            lines.append(f"token {token}: log-prob {of_rollout:.4f}, away {away}; rounding {rounding[token]:.0e}")
        return "\n".join(lines)


@torch.no_grad()
def _log_probs(model: Any, responses: list[Response]) -> list[torch.Tensor]:
    whole = [torch.cat([response.prompt, response.tokens]) for response in responses]
    found = []
    for batch in torch.nn.utils.rnn.pad_sequence(whole, batch_first=True).split(BATCH):  # padding comes after all
        log_probs = model(batch).logits[:, :-1].log_softmax(-1)
        found += log_probs.gather(-1, batch[:, 1:, None])[..., 0].unbind()
    return [
        row[len(response.prompt) - 1 : len(ids) - 1] for row, response, ids in zip(found, responses, whole, strict=True)
    ]


def written_by(
    response: Response, log_probs: dict[int, torch.Tensor], tolerance: float | dict[int, torch.Tensor]
) -> list[int] | None:
    """Return each token's policy step, non-decreasing, or None if no assignment matches.

    log_probs: the response's log-probs by policy step. tolerance: one, or one of each token by policy step. Chooses the
    oldest matching policy.
    """
    found, step = [], response.first
    for token, of_rollout in enumerate(response.rollout_log_probs):
        while step <= response.last and abs(log_probs[step][token] - of_rollout) > (
            tolerance[step][token] if isinstance(tolerance, dict) else tolerance
        ):
            step += 1
        if step > response.last:
            return None
        found.append(step)
    return found
