"""A run's fingerprint: what may not change on a resume, and files that are known by their content."""

import json
import re

import pytest

from rpg.config import fingerprint
from rpg.diagnostics import Refused
from rpg.rewards.user_reward import ADAPTER
from tests.builders.toy_run import small_run as config


def test_a_run_is_not_continued_as_another(tmp_path):
    assert fingerprint.refuse_another(tmp_path, config(tmp_path)) == {}
    fingerprint.record(tmp_path, config(tmp_path), 0, {})
    free = config(tmp_path, trainer__total_training_steps=9, actor_rollout_ref__rollout__val_kwargs__n=8)
    assert fingerprint.refuse_another(tmp_path, free) == {}
    other = config(tmp_path, data__seed=2, actor_rollout_ref__rollout__n=8)
    with pytest.raises(Refused) as caught:
        fingerprint.refuse_another(tmp_path, other)
    rollout, seed = map(str, sorted(caught.value.diagnostics, key=lambda diagnostic: diagnostic.key))
    assert seed.startswith("data.seed=2: ")
    assert rollout.startswith("actor_rollout_ref.rollout.n=8: ")
    assert "rpg.resume_changed=true" in seed
    allowed = config(tmp_path, data__seed=2, rpg__resume_changed=True)
    changed = fingerprint.refuse_another(tmp_path, allowed)
    assert changed == {"data.seed": (1, 2)}
    fingerprint.record(tmp_path, allowed, 3, changed)
    lines = [json.loads(line) for line in (tmp_path / fingerprint.HISTORY).read_text().splitlines()]
    assert [(line["after_step"], line["changed"]) for line in lines] == [(0, {}), (3, {"data.seed": [1, 2]})]
    assert fingerprint.refuse_another(tmp_path, config(tmp_path, data__seed=2)) == {}
    assert fingerprint.refuse_another(tmp_path, config(tmp_path, data__seed=5, trainer__resume_mode="disable")) == {}


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("data__train_files", "data.train_files (content)"),
        ("reward__custom_reward_function__path", "reward.custom_reward_function.path (content)"),  # verl's form
        ("reward__custom_reward_function__reward_kwargs__file", "reward.custom_reward_function.path (content)"),
    ],
)
def test_a_file_is_known_by_its_content(tmp_path, key, named):
    file = tmp_path / "file"
    file.write_text("return 1.0")
    adapter = {"reward__custom_reward_function__path": ADAPTER} if key.endswith("__file") else {}
    run = config(tmp_path, **adapter, **{key: [str(file)] if key.startswith("data") else str(file)})
    fingerprint.record(tmp_path, run, 0, {})
    assert fingerprint.refuse_another(tmp_path, run) == {}
    if key.startswith("data"):
        (tmp_path / "copy").write_text("return 1.0")
        assert not fingerprint.compare(tmp_path, config(tmp_path, **{key: [str(tmp_path / "copy")]}))
    file.write_text("return 0.0")
    assert list(fingerprint.compare(tmp_path, run)) == [named]
    with pytest.raises(Refused, match=rf"{named.split()[0]}=.*file\]?: changed since the run in ") as refusal:
        fingerprint.refuse_another(tmp_path, run)
    assert not re.search("[0-9a-f]{64}", str(refusal.value))


def test_a_reward_in_a_module_is_known_by_its_content(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rewards_of_mine.py").write_text("return 1.0")
    run = config(tmp_path, reward__custom_reward_function__path="pkg://rewards_of_mine")
    fingerprint.record(tmp_path, run, 0, {})
    (tmp_path / "rewards_of_mine.py").write_text("return 0.0")
    assert list(fingerprint.compare(tmp_path, run)) == ["reward.custom_reward_function.path (content)"]


def test_a_hub_model_is_known_by_its_name(tmp_path):
    run, other = (config(tmp_path, actor_rollout_ref__model__path=f"Qwen/{name}") for name in ("Qwen3-4B", "Qwen3-4C"))
    fingerprint.record(tmp_path, run, 0, {})
    assert fingerprint.compare(tmp_path, run) == {}
    assert fingerprint.compare(tmp_path, other) == {fingerprint.MODEL_FILE: ("Qwen/Qwen3-4B", "Qwen/Qwen3-4C")}


def test_what_is_trained_on_is_known_by_its_content(tmp_path):
    """Two models of one shape, another chat template and other code of the user's are other trainings."""
    model, code = tmp_path / "model", tmp_path / "data.py"
    model.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (model / name).write_text("{}")
    code.write_text("pass")
    run = config(tmp_path / "run", actor_rollout_ref__model__path=str(model), data__custom_cls__path=str(code))
    (tmp_path / "run").mkdir()
    fingerprint.record(tmp_path / "run", run, 0, {})
    assert fingerprint.compare(tmp_path / "run", run) == {}
    changed = []
    for file in (model / "model.safetensors", model / "tokenizer_config.json", code):
        before = file.read_text()
        file.write_text("[]")  # of the same size
        changed += fingerprint.compare(tmp_path / "run", run)
        file.write_text(before)
    assert changed == [fingerprint.WEIGHTS, fingerprint.TOKENIZER, "data.custom_cls.path (content)"]


def test_the_length_of_a_run_counts_where_the_learning_rate_follows_it(tmp_path):
    key = "actor_rollout_ref__actor__optim__lr_scheduler_type"
    for decays, changed in (("constant", []), ("cosine", [9])):
        fingerprint.record(tmp_path, config(tmp_path, **{key: decays}), 0, {})
        longer = config(tmp_path, trainer__total_training_steps=9, **{key: decays})
        assert [new for _, new in fingerprint.compare(tmp_path, longer).values()] == changed
