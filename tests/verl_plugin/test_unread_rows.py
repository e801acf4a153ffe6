"""The fused head computes the rows that predict responses, as verl computes all of them."""

import torch
from verl.utils.experimental.torch_functional import FusedLinearForPPO

from rpg.verl_plugin.patches import unread_rows

PROMPTS, RESPONSES = [3, 1, 5], [2, 6, 1]
TOKENS, HIDDEN, VOCABULARY = 7, 4, 11  # of the longest sequence


def nested(lengths: list[int]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.zeros(length) for length in lengths], layout=torch.jagged)


def test_rows_of_responses():
    unread_rows.install()
    unread_rows.install()  # a second time does nothing
    torch.manual_seed(0)
    hidden = torch.randn(3, TOKENS, HIDDEN, requires_grad=True)
    weights = torch.randn(VOCABULARY, HIDDEN, requires_grad=True)
    following = torch.randint(VOCABULARY, (3, TOKENS))
    predicts = torch.zeros(3, TOKENS, dtype=torch.bool)
    for row, prompt, response in zip(predicts, PROMPTS, RESPONSES, strict=True):
        row[prompt - 1 : prompt - 1 + response] = True

    def outcome() -> tuple[torch.Tensor, ...]:
        log_probs, entropy = FusedLinearForPPO().forward(hidden, weights, following, temperature=0.7)
        (log_probs[predicts].square().sum() + entropy[predicts].square().sum()).backward()
        gradients = [tensor.grad for tensor in (hidden, weights)]
        hidden.grad = weights.grad = None
        return log_probs, entropy, *gradients

    whole = outcome()
    with unread_rows.rows_of(nested(PROMPTS), nested(RESPONSES)):
        chosen = outcome()
    for computed, original in zip(chosen[:2], whole[:2], strict=True):
        assert torch.allclose(computed[predicts], original[predicts], atol=1e-6)
        assert computed[~predicts].abs().max() == 0 < original[~predicts].abs().max()
    for computed, original in zip(chosen[2:], whole[2:], strict=True):
        assert torch.allclose(computed, original, atol=1e-5)
    assert torch.equal(outcome()[0], whole[0])  # all rows again
