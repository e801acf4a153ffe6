"""Code beside a tokenizer is run only where the configuration asks for it."""

import json

import pytest
from omegaconf import OmegaConf
from verl.experimental.reward_loop import reward_loop

from rpg.verl_plugin.patches.reward_worker import RewardLoopWorker


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
