"""J of SmolLM2's checkpoints: scripts/studies/scope.py."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from scripts.studies.scope import ANSWERS, LENGTH, sample

END = 2


def test_the_kl_of_sampled_answers_is_that_of_their_prefixes_up_to_the_end():
    torch.manual_seed(0)
    shape = LlamaConfig(vocab_size=5, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                        num_key_value_heads=1, initializer_range=0.5, eos_token_id=END)  # fmt: skip
    model, initial = LlamaForCausalLM(shape).eval(), LlamaForCausalLM(shape).eval()
    prompt = torch.tensor([[1, 3, 4]])
    tokens, kl = sample(model, initial, prompt)
    assert tokens.shape == (ANSWERS, LENGTH)
    ended = 0
    for answer, value in zip(tokens, kl, strict=True):
        length = (answer == END).int().argmax().item() + 1 if END in answer else LENGTH
        ended += length < LENGTH
        assert (answer[length:] == END).all()
        ours, theirs = (
            each(torch.cat([prompt[0], answer])[None]).logits[0, 2 : 2 + length].log_softmax(-1).detach()
            for each in (model, initial)
        )
        torch.testing.assert_close(value, (ours.exp() * (ours - theirs)).sum())
    assert 0 < ended < ANSWERS
