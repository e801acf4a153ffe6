"""The KL of a run's responses is that of the two policies, token by token."""

import pytest
import torch

from rpg.toy.model import ToyModelSettings, build_model, build_tokenizer
from scripts.studies.divergence import kl_of_responses

TEXT = "user\n1+2?\nassistant\n"
OUTPUTS = ["1+2=3", "2"]  # padded to equal length


@pytest.fixture
def models(tmp_path):
    tokenizer = build_tokenizer([TEXT, *OUTPUTS], 300)
    for seed in (1, 2):
        model = build_model(tokenizer, ToyModelSettings(seed=seed))
        model.save_pretrained(tmp_path / str(seed))
        tokenizer.save_pretrained(tmp_path / str(seed))
    return tmp_path / "1", tmp_path / "2"


def test_kl_of_responses(models):
    one, two = models
    samples = [{"input": TEXT, "output": output} for output in OUTPUTS]
    assert kl_of_responses(one, one, samples).tolist() == [0, 0]
    together = kl_of_responses(one, two, samples)
    alone = torch.cat([kl_of_responses(one, two, [sample]) for sample in samples])
    torch.testing.assert_close(together, alone)
    assert together[0] > together[1] > 0
    with pytest.raises(ValueError, match="not a prompt of one message"):
        kl_of_responses(one, two, [{"input": "<|im_end|>", "output": "2"}])
