"""The installed verl is as scripts/check_verl.py expects it, and the script notices one that is not."""

import copy
import importlib.util
import inspect
from pathlib import Path

import pytest
import yaml

from rpg.checks import settings

SCRIPT = Path(__file__).parents[2] / "scripts/check_verl.py"
SPEC = importlib.util.spec_from_file_location("check_verl", SCRIPT)
check_verl = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_verl)
QUESTIONS = ("missing_imports", "changed_signatures", "unknown_keys")


@pytest.mark.parametrize("question", QUESTIONS)
def test_verl_is_as_expected(question):
    assert list(getattr(check_verl, question)()) == []


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
        ("ScheduleFreeEngine", "train_mode"),
        ("CompleteCheckpoints", "_save_checkpoint"),
        ("ServerAdapter", "__init__"),
        ("AppendingFileLogger", "log"),
        ("RewardLoopWorker", "compute_score"),
    } <= found


class Engine:
    """Stands for a class of verl's."""

    def train(self, data, loss_function):
        return f"zmq-{data}-rank"


class OurEngine(Engine):
    def train(self, data):
        return data


@pytest.mark.parametrize(
    ("contract", "differences"),
    [
        ({f"{__name__}.Engine.train": ['return   f"zmq-{data}-rank"']}, 0),
        ({f"{__name__}.Engine.train": ['return f"zmq-{uuid}-rank"']}, 1),
        ({f"{__name__}.Engine.stop": []}, 1),
        ({f"{__name__}.Engine": []}, 0),
        ({"verl.no_such_module": []}, 1),
    ],
)
def test_a_changed_line_is_noticed(contract, differences):
    assert len(list(check_verl.changed_lines(contract))) == differences


def test_a_changed_import_is_noticed(monkeypatch):
    paths = {"verl.utils.device.get_vendor": "a.py", "verl.utils.device.get_spirit": "b.py", "verl.nothing": "c.py"}
    monkeypatch.setattr(check_verl, "imported", lambda: paths)
    assert sorted(line.split()[0] for line in check_verl.missing_imports()) == ["b.py", "c.py"]


def test_a_changed_signature_is_noticed(monkeypatch):
    train = inspect.unwrap(Engine.train)
    monkeypatch.setattr(check_verl, "overrides", lambda: [(OurEngine, "train", OurEngine.train, train)])
    (found,) = check_verl.changed_signatures()
    assert found.startswith("OurEngine.train")


def test_an_unknown_key_is_noticed(monkeypatch):
    theirs = copy.deepcopy(settings.verl_defaults())
    del theirs["trainer"]["test_freq"]
    monkeypatch.setattr(settings, "verl_defaults", lambda: theirs)
    (found,) = check_verl.unknown_keys()
    assert found.startswith("trainer.test_freq=")
