"""The installed verl is as scripts/check_verl.py expects it, and the script notices one that is not."""

import importlib.util
import inspect
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from verl.workers.config import PolicyLossConfig

from rpg.verl_plugin.config import RPGPolicyLossConfig

SCRIPT = Path(__file__).parents[2] / "scripts/check_verl.py"
SPEC = importlib.util.spec_from_file_location("check_verl", SCRIPT)
check_verl = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_verl)
QUESTIONS = ("missing_imports", "changed_signatures", "unknown_keys")


@pytest.mark.parametrize("question", QUESTIONS)
def test_verl_is_as_expected(question):
    assert list(getattr(check_verl, question)()) == []


def test_no_setting_of_ours_takes_the_name_of_one_of_verls():
    ours = inspect.get_annotations(RPGPolicyLossConfig)
    assert ours.keys().isdisjoint(field.name for field in fields(PolicyLossConfig))


def test_the_lines_are_there():
    assert list(check_verl.changed_lines(yaml.safe_load(check_verl.CONTRACT.read_text()))) == []


def test_imports_and_overrides_are_found():
    """Empty lists above would mean nothing if these were empty, too."""
    assert {"verl.workers.utils.losses", "ray._private.state", "vllm.model_executor.layers.utils"} <= {
        path.rpartition(".")[0] for path in check_verl.imported()
    } | check_verl.imported().keys()
    found = {(cls.__name__, name) for cls, name, _, _ in check_verl.overrides()}
    assert {
        ("RPGActor", "train_batch"),
        ("RPGTrainer", "step"),
        ("RPGTrainer", "_compute_metrics"),
        ("ScheduleFreeEngine", "train_mode"),
        ("CompleteCheckpoints", "_save_checkpoint"),
        ("ServerAdapter", "__init__"),
        ("AppendingFileLogger", "log"),
        ("RewardLoopWorker", "compute_score"),
    } <= found
