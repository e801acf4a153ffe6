"""The fused head computes the rows that predict responses, as verl computes all of them."""

import torch
from real_worker import batch
from verl.utils import tensordict_utils as tu
from verl.utils.experimental.torch_functional import FusedLinearForPPO

from rpg.verl_plugin.patches.unread_rows import ResponseHeadEngine

PROMPTS, RESPONSES = [3, 1, 5], [2, 6, 1]
TOKENS, HIDDEN, VOCABULARY = 7, 4, 11  # of the longest sequence


class Verls:
    """verl's engine, of which the forward step is the head alone."""

    def forward_step(self, micro_batch, loss_function, forward_only):
        return FusedLinearForPPO().forward(*loss_function, temperature=0.7)


class Engine(ResponseHeadEngine, Verls):
    """The order of the worker's engine."""


def test_rows_of_responses():
    torch.manual_seed(0)
    hidden = torch.randn(3, TOKENS, HIDDEN, requires_grad=True)
    weights = torch.randn(VOCABULARY, HIDDEN, requires_grad=True)
    following = torch.randint(VOCABULARY, (3, TOKENS))
    predicts = torch.zeros(3, TOKENS, dtype=torch.bool)
    for row, prompt, response in zip(predicts, PROMPTS, RESPONSES, strict=True):
        row[prompt - 1 : prompt - 1 + response] = True
    data = batch([torch.zeros(p + r) for p, r in zip(PROMPTS, RESPONSES, strict=True)], PROMPTS)

    def outcome(packed: bool) -> tuple[torch.Tensor, ...]:
        tu.assign_non_tensor(data, use_remove_padding=packed)
        log_probs, entropy = Engine().forward_step(data, (hidden, weights, following), False)
        (log_probs[predicts].square().sum() + entropy[predicts].square().sum()).backward()
        gradients = [tensor.grad for tensor in (hidden, weights)]
        hidden.grad = weights.grad = None
        return log_probs, entropy, *gradients

    chosen, whole = outcome(packed=False), outcome(packed=True)
    for computed, original in zip(chosen[:2], whole[:2], strict=True):
        assert torch.allclose(computed[predicts], original[predicts], atol=1e-6)
        assert computed[~predicts].abs().max() == 0 < original[~predicts].abs().max()
    for computed, original in zip(chosen[2:], whole[2:], strict=True):
        assert torch.allclose(computed, original, atol=1e-5)
