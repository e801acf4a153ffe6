"""Reward functions that raise, hang or do not return a number, under verl's reward manager."""

import asyncio
import json
import math
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

pytestmark = pytest.mark.full  # importing verl takes ten seconds

FUNCTION = """
import time

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if ground_truth == "raise":
        raise KeyError("no such problem")
    if ground_truth == "hang":
        time.sleep(60)
    return {"score": float("nan") if ground_truth == "nan" else 0.5, "format": True}
"""
REASONS = {
    "raise": "KeyError: 'no such problem' (",
    "hang": "the reward took more than 0.5 s (rpg.reward_limit)",
    "nan": "{file}, compute_score: score=nan is not a finite number",
}


def data(truth: str):
    import numpy as np
    from verl import DataProto

    row = {
        "data_source": "toy_sum",
        "reward_model": {"ground_truth": truth},
        "extra_info": {"index": 0},
        "raw_prompt": [{"role": "user", "content": "What is 1 + 2?"}],
        "uid": "some-uid",
        "global_steps": 7,
    }
    return DataProto.from_dict(
        tensors={"responses": torch.tensor([[1, 2]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)},
        non_tensors={key: np.array([value, None], dtype=object)[:1] for key, value in row.items()},
    )


def test_left_out(tmp_path, monkeypatch):
    from verl.experimental.reward_loop import reward_loop

    from rpg.files.atomic import LEFT_OUT
    from rpg.rewards.user_reward import ADAPTER
    from rpg.verl_plugin.patches import reward_worker

    tokenizer = SimpleNamespace(decode=lambda *_, **__: "Answer: 3")
    monkeypatch.setattr(reward_worker, "hf_tokenizer", lambda *_, **__: tokenizer)
    monkeypatch.setattr(reward_loop, "hf_tokenizer", None)  # which the worker sets
    monkeypatch.setattr(reward_loop, "copy_to_local", lambda path: path)
    file = tmp_path / "function.py"
    file.write_text(FUNCTION)
    config = OmegaConf.create(
        {
            "rpg": {"reward_limit": 0.5},
            "trainer": {"default_local_dir": str(tmp_path / "run")},
            "actor_rollout_ref": {"model": {"path": "model", "tokenizer_path": None}},
            "reward": {
                "custom_reward_function": {
                    "path": ADAPTER,
                    "name": "compute_score",
                    "reward_kwargs": {"file": str(file), "function": "compute_score"},
                },
                "reward_manager": {"source": "register", "name": "naive"},
                "reward_model": {"enable": False},
            },
        }
    )

    async def score() -> None:
        worker = reward_worker.RewardLoopWorker(config)
        assert await worker.compute_score(data("right")) == {
            "reward_score": 0.5,
            "reward_extra_info": {"score": 0.5, "acc": 0.5, "format": 1.0, "pred": "", "data_source": "toy_sum"},
        }
        for truth, reason in REASONS.items():
            with pytest.raises(RuntimeError) as raised:
                await worker.compute_score(data(truth))
            assert str(raised.value).startswith("some-uid of toy_sum: " + reason.replace("{file}", str(file)))
        worker.config.reward.custom_reward_function.path = "of_verl.py"  # without the adapter, which limits and checks
        for value, reason in (
            (math.nan, "ValueError: the reward function returned score=nan"),
            (None, "took more than"),
        ):

            async def own(_, value=value):
                await asyncio.sleep(60 if value is None else 0)
                return {"reward_score": value, "reward_extra_info": {}}

            worker.reward_manager.run_single = own
            with pytest.raises(RuntimeError, match=reason):
                await worker.compute_score(data("right"))

    asyncio.run(score())
    notes = [json.loads(line) for line in (tmp_path / "run" / LEFT_OUT).read_text().splitlines()]
    assert len(notes) == len(REASONS) + 2
    assert {(note["step"], note["uid"], note["problem"]) for note in notes} == {(7, "some-uid", "What is 1 + 2?")}
