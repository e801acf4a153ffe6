"""The worker of rewards: the reason of a missing one, and code beside a tokenizer only where it is asked for."""

import asyncio
import json
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop import reward_loop

from rpg.files.atomic import LEFT_OUT
from rpg.verl_plugin.patches.reward_worker import RewardLoopWorker

LIMIT = r"the reward took more than 0.05 s \(rpg.reward_limit\)"


@pytest.mark.parametrize(("seconds", "why"), [(0, "TimeoutError: no answer"), (60, LIMIT)])
def test_a_rewards_own_time_out_is_not_the_limit(tmp_path, seconds, why):
    async def run_single(_):
        await asyncio.sleep(seconds)
        raise TimeoutError("no answer")

    worker = object.__new__(RewardLoopWorker)
    worker._in_child, worker.reward_manager = False, SimpleNamespace(run_single=run_single)
    reward, where = {"custom_reward_function": {"path": "x"}}, {"default_local_dir": str(tmp_path)}
    worker.config = OmegaConf.create({"rpg": {"reward_limit": 0.05}, "trainer": where, "reward": reward})
    row = {"raw_prompt": [{"content": "1+1"}], "global_steps": 1, "uid": "u", "data_source": "s"}
    data = DataProto(non_tensor_batch={key: np.array([value, None], dtype=object)[:1] for key, value in row.items()})
    with pytest.raises(RuntimeError, match=f"^u of s: {why}$"):
        asyncio.run(worker.compute_score(data))
    assert json.loads((tmp_path / LEFT_OUT).read_text())["problem"] == "1+1"


@pytest.mark.parametrize("asked", [False, True])
def test_a_tokenizers_code_is_run_where_it_is_asked_for(toy, tmp_path, monkeypatch, asked):
    """The code leaves a trace when it is imported."""
    directory = toy / "model"
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "[UNK]"}
    auto = {"auto_map": {"AutoTokenizer": ["coded.Mine", "coded.Mine"]}}
    (directory / "tokenizer_config.json").write_text(json.dumps({**named, **auto}))
    (directory / "coded.py").write_text(
        f"import os\nos.mkdir({str(tmp_path / 'trace')!r})\n"
        "from transformers import PreTrainedTokenizerFast\nclass Mine(PreTrainedTokenizerFast):\n    pass\n"
    )
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(reward_loop, "hf_tokenizer", reward_loop.hf_tokenizer)  # which ours replaces
    monkeypatch.setattr(reward_loop, "load_reward_manager", lambda *args, **kwargs: None)
    model = {"path": str(directory), "tokenizer_path": None, "trust_remote_code": asked}
    config = {
        "actor_rollout_ref": {"model": model},
        "reward": {"reward_model": {"enable": False}, "custom_reward_function": {"path": None}},
    }
    made = RewardLoopWorker(OmegaConf.create(config))
    assert (type(made.input_tokenizer).__name__ == "Mine") is asked
    assert (tmp_path / "trace").exists() is asked
