"""Our checkpoint mixin on verl's trainer: writing of the manifest, and removal of checkpoints."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rpg.files import manifest
from rpg.files.integrity import newest_complete
from rpg.verl_plugin import checkpoints
from tests.builders.checkpoints import write_verl


class Workers:
    world_size = 2


class Saving(PPOTrainerSync):
    """verl's trainer reduced to saving: files, then tracker; records the files during a save."""

    def __init__(self, config):
        self.config, self.global_steps, self.actor_rollout_wg = config, 0, Workers()
        self.complete_meanwhile: list[int] = []
        self.fails: BaseException | None = None
        self.trainer_mode = "sync"
        self.resumes_at = 0

    def _load_checkpoint(self):
        self.global_steps = self.resumes_at

    def _save_checkpoint(self):
        run = Path(self.config.trainer.default_local_dir)
        step = write_verl(run, self.global_steps)
        others = step.parent.glob("global_step_*")
        self.complete_meanwhile.append(sum(manifest.fault(other) is None for other in others))
        if self.fails:
            raise self.fails


class Trainer(checkpoints.CompleteCheckpoints, Saving):
    """The class order of install."""


def started(config, resumes_at=0):
    trainer = Trainer(config)
    trainer.resumes_at = resumes_at
    trainer._load_checkpoint()
    return trainer


@pytest.fixture
def trainer(tmp_path):
    keep = {"default_local_dir": str(tmp_path), "max_actor_ckpt_to_keep": None}
    return started(OmegaConf.create({"trainer": keep}))


def save(trainer, *steps):
    for trainer.global_steps in steps:
        trainer._save_checkpoint()


def on_disk(trainer):
    return sorted(int(path.name[12:]) for path in Path(trainer.config.trainer.default_local_dir).glob("global_step_*"))


def test_a_save_that_does_not_end(trainer, tmp_path):
    """All of verl's files exist, also its tracker; the step was saved once before."""
    save(trainer, 2, 4)
    trainer.fails = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        save(trainer, 4)
    choice = newest_complete(tmp_path)
    assert choice.newest and choice.newest.name == "global_step_2"  # noqa: PT018
    assert choice.tracker == "4"


@pytest.mark.parametrize(
    ("keep", "left", "meanwhile"),
    [
        (None, [2, 4, 6, 8], [0, 1, 2, 3]),
        (2, [6, 8], [0, 1, 1, 1]),
        (1, [8], [0, 1, 1, 1]),  # verl has none in the end, as it removes the last when the actor is saved
    ],
)
def test_one_complete_checkpoint_at_every_moment(trainer, tmp_path, capsys, keep, left, meanwhile):
    trainer.config.trainer.max_actor_ckpt_to_keep = keep
    trainer = started(trainer.config)
    save(trainer, 2, 4, 6, 8)
    assert on_disk(trainer) == left
    assert not any(manifest.fault(tmp_path / f"global_step_{step}") for step in left)
    assert trainer.complete_meanwhile == meanwhile
    assert "warning" not in capsys.readouterr().out


def test_checkpoints_of_earlier_starts_count(trainer):
    """Four starts with two saves each need space for two checkpoints."""
    trainer.config.trainer.max_actor_ckpt_to_keep = 2
    save(trainer, 2, 4)
    for at in (4, 8, 12):
        trainer = started(trainer.config, at)
        save(trainer, at + 2, at + 4)
        assert on_disk(trainer) == [at + 2, at + 4]
        assert trainer.complete_meanwhile == [1, 1]


def test_what_a_start_does_not_go_on_from_is_left_alone(trainer, tmp_path):
    save(trainer, 2, 4, 6, 8)  # all are kept
    trainer.config.trainer.max_actor_ckpt_to_keep = 2
    again = started(trainer.config, 6)  # 8 was passed over
    save(again, 7)
    assert on_disk(again) == [2, 6, 7, 8]  # 4 and 6 counted: 4 made room
    anew = started(trainer.config, 0)  # trainer.resume_mode=disable
    save(anew, 1)
    assert on_disk(anew) == [1, 2, 6, 7, 8]
