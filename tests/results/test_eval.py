"""`rpg eval NAME`: the command that it runs has the settings of the checkpoint's run; rejected input.

tests/e2e/test_evaluation.py evaluates real checkpoints.
"""

import shlex
import sys
from pathlib import Path

import pytest

from rpg.cli import main
from rpg.config.compose import of_script
from rpg.config.run_config import RunConfig
from rpg.dotted import leaves
from rpg.registry import recipe
from rpg.results.evaluation import is_taken_over, overrides_of_run
from rpg.rewards.user_reward import ADAPTER
from tests.builders.checkpoints import write_complete, write_verl

NAME = "rpg_cpu_urkl1e-4_rf"
SHARD = "actor/model_world_size_2_rank_1.pt"
FUNCTION = "reward.custom_reward_function"
OWN = (  # of a training with one's own data, reward and lengths
    "data.train_files=[/data/mine_train.parquet]",  # verl opens them for a validation, too
    "data.val_files=[/data/mine_test.parquet]",
    "data.max_response_length=48",
    "data.max_prompt_length=91",
    "+data.apply_chat_template_kwargs.enable_thinking=false",
    "actor_rollout_ref.model.path=/models/my_model",
    r"actor_rollout_ref.model.custom_chat_template='{{ messages }}, it\'s'",
    "actor_rollout_ref.rollout.val_kwargs.n=4",
    "actor_rollout_ref.rollout.val_kwargs.temperature=0.6",
    "actor_rollout_ref.actor.optim.lr=3e-3",
    "trainer.experiment_name=mine",
)


def trained(folder: Path) -> tuple[Path, RunConfig]:
    """Write what a training leaves, config.yaml and a checkpoint of step 4; return directory and configuration."""
    (folder / "mine.py").write_text("def compute_score(response, answer):\n    return 1.0\n")
    run = of_script(recipe.find(NAME), [f"{FUNCTION}.path={folder / 'mine.py'}", *OWN])
    write_complete(folder / "run", 4)
    (folder / "run/config.yaml").write_text(run.yaml())
    return folder / "run", run


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[str], RunConfig]:
    """Return the words of the printed command, and the configuration that it makes."""
    assert main(["eval", *map(str, arguments), "--print"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[:2] == ["bash", str(recipe.find(NAME).path)]
    return words, of_script(recipe.find(words[1]), words[2:])


def test_a_run_is_evaluated_with_its_own_settings(tmp_path, capsys):
    run, there = trained(tmp_path)
    _, here = printed(capsys, NAME, "--checkpoint", run)
    for key, value in leaves(there.config):
        if is_taken_over(key):
            assert here.get(key) == value, key
    assert here.get(f"{FUNCTION}.path") == ADAPTER
    assert "judge" not in here.get(f"{FUNCTION}.reward_kwargs")
    assert here.get("reward.reward_kwargs.overlong_buffer_cfg.enable") is False
    assert here.get("actor_rollout_ref.rollout.response_length") == 48


@pytest.mark.parametrize(
    "chosen",
    [
        ["schedule=separate", "pi_old=decoupled"],
        ["schedule=async", "pi_old=recomputed"],
        ["optim=schedulefree", "reference=every_k"],
        ["adapter=lora"],
    ],
)
def test_no_choice_of_a_run_is_lost(tmp_path, chosen):
    """An evaluation starts the run's trainer, loss and rollouts: what is left of its settings may only save or name."""
    (tmp_path / "mine.py").write_text("")
    script = recipe.find(NAME)
    there = of_script(script, [*chosen, f"rpg.external_lib=[{tmp_path / 'mine.py'}]"])
    here = of_script(script, overrides_of_run(script, there.copy(), []))
    lost = {key for key, value in leaves(there.config) if here.get(key) != value}
    assert lost <= {"trainer.experiment_name", "trainer.default_local_dir"}


def test_flags_and_overrides_win(tmp_path, capsys):
    (run, _), other = trained(tmp_path), tmp_path / "other.parquet"
    flags = ["--files", other, "--samples", 2, "--judge", "verified", "--out", tmp_path / "out", "--model", "Qwen/Qwen"]
    _, here = printed(capsys, NAME, "data.max_response_length=64", "--checkpoint", run / "global_step_4", *flags)
    assert here.get("actor_rollout_ref.model.path") == "Qwen/Qwen"
    assert here.get("data.val_files") == [str(other)]
    assert here.get("actor_rollout_ref.rollout.val_kwargs.n") == 2
    assert here.get("actor_rollout_ref.rollout.val_kwargs.temperature") == 0.6  # the run's
    assert here.get(f"{FUNCTION}.path") == "pkg://rpg.rewards"
    assert here.get(f"{FUNCTION}.reward_kwargs") == {"judge": "verified"}
    assert here.get("trainer.default_local_dir") == str(tmp_path / "out")
    for key in ("actor_rollout_ref.rollout.response_length", "reward.reward_kwargs.max_resp_len"):
        assert here.get(key) == 64  # derived from the override, not the run's 48


def test_an_entry_of_a_group_wins_over_the_runs_values(tmp_path, capsys):
    run, _ = trained(tmp_path)
    _, here = printed(capsys, NAME, "dataset=gsm8k", "--checkpoint", run)
    assert [Path(name).name for name in here.files("val")] == ["gsm8k_test.parquet"]
    assert (here.get("data.max_response_length"), here.get("data.max_prompt_length")) == (1024, 512)
    assert here.get("actor_rollout_ref.rollout.val_kwargs.temperature") == 0.6  # the run's


def test_it_takes_what_train_takes(tmp_path, capsys):
    (run, _), files = trained(tmp_path), [tmp_path / "test.parquet", tmp_path / "train.parquet"]
    (tmp_path / "other.py").write_text("def reward(response, answer):\n    return 0.0\n")
    (tmp_path / "model").mkdir()
    flags = ["--model", tmp_path / "model", "--test", files[0], "--train", files[1], "--reward", tmp_path / "other.py"]
    _, here = printed(capsys, NAME, "--checkpoint", run, *flags)
    assert here.get("actor_rollout_ref.model.path") == str(tmp_path / "model")
    assert (here.get("data.val_files"), here.get("data.train_files")) == ([str(files[0])], [str(files[1])])
    assert here.get(f"{FUNCTION}.path") == ADAPTER
    assert here.get(f"{FUNCTION}.reward_kwargs") == {"file": str(tmp_path / "other.py"), "function": "reward"}


def test_a_run_of_the_script_alone_adds_nothing(tmp_path, capsys):
    checkpoint = write_complete(tmp_path, 4)
    (tmp_path / "config.yaml").write_text(of_script(recipe.find(NAME), []).yaml())
    words, _ = printed(capsys, NAME, "--checkpoint", tmp_path)
    assert words[2:] == [
        "trainer.val_only=True",
        "trainer.val_before_train=True",
        f"trainer.default_local_dir={tmp_path / 'eval-global_step_4'}",
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={checkpoint}",
        "actor_rollout_ref.actor.checkpoint.load_contents=[model]",
    ]


def test_the_untrained_model_needs_no_directory(capsys):
    """Also of a name without a script, which `rpg train` starts."""
    words, here = printed(capsys, recipe.find(NAME).path)
    assert words[-1] == "trainer.resume_mode=disable"
    assert here.get("trainer.default_local_dir").endswith(f"checkpoints/{NAME}-untrained")
    assert main(["eval", "grpo_qwen3-0.6b", "--print"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[:6] == [sys.executable, "-m", "rpg.cli", "train", "grpo_qwen3-0.6b", "trainer.val_only=True"]


def test_eval_refuses(tmp_path, capsys):
    def refused(*arguments: object) -> str:
        assert main(["eval", *map(str, arguments)]) == 2
        return capsys.readouterr().err

    assert "did you mean rpg_cpu_urkl1e-4_rf" in refused("rpg_cpu_urkl1e-4_rff", "--print")
    assert f"use rpg eval NAME --checkpoint {tmp_path}" in refused(str(tmp_path))
    assert "no checkpoint is there" in refused(NAME, "--checkpoint", tmp_path, "--print")
    for cut in (write_complete(tmp_path, 6), write_verl(tmp_path, 4)):
        (cut / SHARD).write_bytes(b"")
        assert f"{cut}: {SHARD}" in refused(NAME, "--checkpoint", cut)
    (tmp_path / "metrics.jsonl").touch()  # of a run that would be overwritten
    assert f"{tmp_path}: is already a run" in refused(NAME, "--out", tmp_path)
    run = write_complete(tmp_path / "run", 2).parent
    (run / "config.yaml").write_text("- no mapping")
    assert "config.yaml" in refused(NAME, "--checkpoint", run)
