"""External input: code in a checkpoint and code beside a tokenizer are not run."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from verl.experimental.reward_loop import reward_loop
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

from rpg.verl_plugin import checkpoints, rollout
from rpg.verl_plugin.patches import reward_worker, weights_only
from tests.verl_plugin.test_checkpoints import Saving
from tests.verl_plugin.tiny_fsdp import build, process_group

ALL = ["model", "optimizer", "extra"]
assert rollout  # its import is what a run's workers have


class Code:
    """Creates a file if unpickled."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def test_code_in_a_checkpoint_is_refused(tmp_path):
    """By verl's loader of checkpoints, which would otherwise run it."""
    trace = tmp_path / "trace"
    with process_group():
        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        contents = OmegaConf.create({"load_contents": ALL, "save_contents": ALL})
        manager = FSDPCheckpointManager(model, optimizer, schedule, None, contents)
        extra = {"lr_scheduler": schedule.state_dict(), "rng": manager.get_rng_state(), "more": Code(trace)}
        saved = {"model": model.state_dict(), "optim": optimizer.state_dict(), "extra_state": extra}
        for name, content in saved.items():
            torch.save(content, tmp_path / f"{name}_world_size_1_rank_0.pt")
        with pytest.raises(pickle.UnpicklingError, match="mkdir"):  # of the third file: the others are read
            manager.load_checkpoint(str(tmp_path))
        assert not trace.exists()
        assert weights_only.SWITCH not in os.environ


class Loading(Saving):
    """verl's trainer reduced to loading the data loader's state."""

    def _load_checkpoint(self):
        return torch.load(Path(self.config.trainer.default_local_dir) / "data.pt", weights_only=False)


class Trainer(checkpoints.CompleteCheckpoints, Loading):
    """The class order of install."""


def test_code_in_the_loaders_state_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(weights_only.SWITCH, "0")
    trainer = Trainer(OmegaConf.create({"trainer": {"default_local_dir": str(tmp_path)}}))
    torch.save({"more": Code(tmp_path / "trace")}, tmp_path / "data.pt")
    with pytest.raises(pickle.UnpicklingError, match="mkdir"):
        trainer._load_checkpoint()
    assert not (tmp_path / "trace").exists()
    assert os.environ[weights_only.SWITCH] == "0"


@pytest.fixture
def coded(tmp_path) -> Path:
    """Return a tokenizer's directory with code that leaves a trace when imported."""
    directory = tmp_path / "model"
    directory.mkdir()
    Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]")).save(str(directory / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "[UNK]"}
    auto = {"auto_map": {"AutoTokenizer": ["coded.Mine", "coded.Mine"]}}
    (directory / "tokenizer_config.json").write_text(json.dumps({**named, **auto}))
    (directory / "coded.py").write_text(
        f"import os\nos.mkdir({str(tmp_path / 'trace')!r})\n"
        "from transformers import PreTrainedTokenizerFast\nclass Mine(PreTrainedTokenizerFast):\n    pass\n"
    )
    return directory


@pytest.mark.parametrize("asked", [False, True])
def test_a_tokenizers_code_is_run_where_it_is_asked_for(coded, tmp_path, monkeypatch, asked):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(reward_loop, "hf_tokenizer", reward_loop.hf_tokenizer)  # which ours replaces
    monkeypatch.setattr(reward_loop, "load_reward_manager", lambda *args, **kwargs: None)
    monkeypatch.setattr(reward_loop, "RewardLoopWorker", reward_loop.RewardLoopWorker)
    reward_worker.install()
    model = {"path": str(coded), "tokenizer_path": None, "trust_remote_code": asked}
    config = {
        "actor_rollout_ref": {"model": model},
        "reward": {"reward_model": {"enable": False}, "custom_reward_function": {"path": None}},
    }
    made = reward_loop.RewardLoopWorker(OmegaConf.create(config))
    assert (type(made.input_tokenizer).__name__ == "Mine") is asked
    assert (tmp_path / "trace").exists() is asked
