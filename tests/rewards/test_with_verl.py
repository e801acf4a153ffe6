"""verl's own loaders with our file and our score function: RLHFDataset, get_custom_reward_fn, dapo manager."""

import asyncio
from pathlib import Path

import pytest

from rpg.cli import main

pytestmark = pytest.mark.full  # importing verl takes ten seconds

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    characters = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    characters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    characters.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=characters)
    fast.chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    return fast


def test_dataset_reads_the_file(tmp_path: Path, tokenizer) -> None:
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    assert main(["data", "build", "toy", "--out", str(tmp_path), "--train-size", "20", "--test-size", "5"]) == 0
    config = OmegaConf.create({"max_prompt_length": 2048, "filter_overlong_prompts": True, "cache_dir": str(tmp_path)})
    dataset = RLHFDataset(str(tmp_path / "toy_train.parquet"), tokenizer, config)
    assert len(dataset) == 20
    row = dataset[3]
    assert row["raw_prompt"][0]["role"] == "user"
    assert row["raw_prompt"][0]["content"].startswith("Solve the following math problem step by step.")
    assert row["index"] == 0
    assert int(row["reward_model"]["ground_truth"]) >= 0


@pytest.mark.parametrize("path", ["pkg://rpg.rewards", str(ROOT / "rpg" / "rewards" / "__init__.py")])
def test_dapo_manager_scores_with_our_function(path: str, tokenizer) -> None:
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": path,
                    "name": "compute_score",
                    "reward_kwargs": {"judge": "verified", "boxed_fallback": False},
                },
                "reward_manager": {"source": "register", "name": "dapo"},
                "reward_kwargs": {
                    "overlong_buffer_cfg": {"enable": True, "len": 10, "penalty_factor": 1.0, "log": True},
                    "max_resp_len": 30,
                },
            }
        }
    )
    responses = [r"Answer: \frac{2}{4}", "Answer: 3", r"\boxed{1/2}", "Answer: (x+1)/2 - x/3", "......Answer: 0.5"]

    async def score() -> list[dict]:
        manager = load_reward_manager(config, tokenizer)  # takes the running event loop
        results = []
        for response in responses:
            ids = torch.tensor([tokenizer.encode(response)])
            prompt_mask = torch.ones(1, 4, dtype=torch.long)
            data = DataProto.from_dict(
                tensors={
                    "responses": ids,
                    "attention_mask": torch.cat([prompt_mask, torch.ones_like(ids)], dim=1),
                },
                non_tensors={
                    "data_source": np.array(["minerva"], dtype=object),
                    "reward_model": np.array([{"ground_truth": "1/2"}], dtype=object),
                    "extra_info": np.array([{"index": 0}], dtype=object),
                },
            )
            results.append(await manager.run_single(data))
        return results

    results = asyncio.run(score())
    info = [result["reward_extra_info"] for result in results]
    assert [one["acc"] for one in info] == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert [one["pred"] for one in info] == [r"\frac{2}{4}", "3", "", "(x+1)/2 - x/3", "0.5"]
    # 21 characters, 1 over the 20 that are free of the 10-token buffer: 0.1 off
    assert len(responses[3]) == 21
    assert float(results[3]["reward_score"]) == pytest.approx(-1.0 - 0.1)
    assert float(results[0]["reward_score"]) == pytest.approx(1.0)
