"""Reads the training data of an asynchronous step from its checkpoint, and finds the policy that wrote each token.

Where attention is nearly tied, each layer of the toy model amplifies rounding: one log-prob of vLLM in 30,000 differed
by more than 1e-3 from that of float32 transformers, under one policy that never changed. A token of another policy is
off by 0.01 to 10, with its neighbours. So a response may have one token that no policy matches.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from tests.e2e import short_run
from tests.e2e.conftest import TOY

BATCH = 64  # responses at once


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

    def _model(self, step: int) -> Any:
        if step not in self._made:
            model = AutoModelForCausalLM.from_pretrained(TOY / "model", dtype=torch.float32)
            if step:
                model.load_state_dict(short_run.actor(self._run, step))
            self._made[step] = model.double().eval()
        return self._made[step]

    def log_probs(self, step: int, responses: list[Response]) -> list[torch.Tensor]:
        """Return log pi of each response's tokens at temperature 1, by transformers."""
        return _log_probs(self._model(step), responses)


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


def written_by(response: Response, log_probs: dict[int, torch.Tensor], tolerance: float) -> list[int] | None:
    """Return each token's policy step, non-decreasing, or None if no assignment matches.

    log_probs: the response's log-probs by policy step. Chooses the oldest matching policy; one token may match none.
    """
    found, step, strays = [], response.first, 0
    for token, of_rollout in enumerate(response.rollout_log_probs):
        later = range(step, response.last + 1)
        matching = [one for one in later if abs(log_probs[one][token] - of_rollout) <= tolerance]
        strays += not matching
        if strays > 1:
            return None
        step = min(matching, default=step)
        found.append(step)
    return found
