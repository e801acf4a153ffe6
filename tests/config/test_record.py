"""What a resume compares: config.yaml less what may change, and the contents of the files that it names."""

import json
from pathlib import Path

import pytest

from rpg.config import record, types
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, MODEL, PATHS, RESUMABLE, REWARD_FILE, TYPES, VALIDATION
from rpg.diagnostics import Refused
from rpg.dotted import leaves
from rpg.files.atomic import CONFIG, ENVIRONMENT
from tests.builders.toy_run import small_run


def written(directory: Path, run: RunConfig) -> None:
    """Write what a start leaves in the run's directory."""
    directory.mkdir(exist_ok=True)
    (directory / CONFIG).write_text(run.yaml())
    (directory / ENVIRONMENT).write_text(json.dumps({record.CONTENTS: record.contents(run)}))


def test_what_may_change_and_what_may_not(tmp_path):
    written(tmp_path, small_run(tmp_path))
    free = small_run(tmp_path, trainer__total_training_steps=9, trainer__save_freq=3, data__val_files="/other")
    assert record.refuse_another(tmp_path, free) == {}
    other = small_run(tmp_path, data__seed=2)
    with pytest.raises(Refused, match=r"data.seed=2: the run in .* has 1; .*rpg.resume_changed=true"):
        record.refuse_another(tmp_path, other)
    allowed = small_run(tmp_path, data__seed=2, rpg__resume_changed=True)
    assert record.refuse_another(tmp_path, allowed) == {"data.seed": (1, 2)}
    assert record.refuse_another(tmp_path, small_run(tmp_path, data__seed=5, trainer__resume_mode="disable")) == {}
    assert record.refuse_another(tmp_path / "new", other) == {}


def test_a_schedule_makes_the_length_part_of_the_training(tmp_path):
    key, steps = "actor_rollout_ref__actor__optim__lr_scheduler_type", {"trainer__total_training_steps": 9}
    for schedule, changed in (("constant", []), ("cosine", ["trainer.total_training_steps"])):
        written(tmp_path, small_run(tmp_path, **{key: schedule}))
        assert list(record.changed(tmp_path, small_run(tmp_path, **{key: schedule}, **steps))) == changed
    epochs = {key: "cosine", "trainer__total_training_steps": None}
    written(tmp_path, small_run(tmp_path, **epochs, trainer__total_epochs=2))
    assert [*record.changed(tmp_path, small_run(tmp_path, **epochs, trainer__total_epochs=4))] == [
        "trainer.total_epochs"
    ]


def test_files_are_known_by_their_content(tmp_path):
    data, model = tmp_path / "a.parquet", tmp_path / "model"
    data.write_bytes(b"1")
    model.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (model / name).write_text("{}")
    named = {"data__train_files": [str(data)], "actor_rollout_ref__model__path": str(model)}
    run, directory = small_run(tmp_path / "run", **named), tmp_path / "run"
    written(directory, run)
    moved = data.rename(tmp_path / "b.parquet")
    assert record.changed(directory, small_run(directory, **{**named, "data__train_files": [str(moved)]})) == {}
    for name, part in (("config.json", "config"), ("model.safetensors", "weights"), ("tokenizer.json", "tokenizer")):
        written(directory, small_run(directory, **{**named, "data__train_files": [str(moved)]}))
        (model / name).write_text("{ }")
        with pytest.raises(Refused, match=rf"model.path.{part}={model}: changed since the run"):
            record.refuse_another(directory, small_run(directory, **{**named, "data__train_files": [str(moved)]}))
    keys = ("data__train_files", "actor_rollout_ref__model__tokenizer_path", "actor_rollout_ref__model__hf_config_path")
    remote = dict.fromkeys(keys, "hdfs://a")  # no file here: known by its name
    written(directory, small_run(directory, **remote))
    for key in keys:
        assert record.changed(directory, small_run(directory, **{**remote, key: "hdfs://b"})), key


def test_code_of_the_user_is_known_by_its_content(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("x = 1")
    named = {"rpg__external_lib": [str(mine)], "reward__custom_reward_function__reward_kwargs": {"file": str(mine)}}
    run = small_run(tmp_path, reward__custom_reward_function__path="pkg://rpg.rewards.user_reward", **named)
    written(tmp_path, run)
    assert record.changed(tmp_path, run) == {}
    mine.write_text("x = 2")
    changed = ["reward.custom_reward_function.reward_kwargs.file (content)", "rpg.external_lib (content)"]
    assert list(record.changed(tmp_path, run)) == changed


def test_a_damaged_record_is_refused(tmp_path):
    (tmp_path / CONFIG).write_text("a: [1")
    with pytest.raises(Refused, match=rf"{CONFIG}: cannot be read"):
        record.changed(tmp_path, small_run(tmp_path))


def test_the_lists_name_keys_of_verl(tmp_path):
    """A key that verl renames would silently be compared, or no longer checked."""
    known = {key for key, _ in leaves(small_run(tmp_path).config)} | {key for key, _ in leaves(types.verl_defaults())}
    sections = {".".join(key.split(".")[:depth]) for key in known for depth in range(1, key.count(".") + 2)}
    optional = {f"{ACTOR}.policy_loss.{name}" for name in ("z_old", "kl_coef", "clip_scope", "clip_branch")} | {
        f"{MODEL}.tokenizer_path", "trainer.rollout_data_dir", "trainer.checkpoint_callback_class", REWARD_FILE,
        "ray_kwargs.ray_init.runtime_env.env_vars", "algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights",
    }  # fmt: skip
    assert {*record.CODE, *RESUMABLE, *VALIDATION, *PATHS, *TYPES} - sections - optional == set()
