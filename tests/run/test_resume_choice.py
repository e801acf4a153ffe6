"""The checkpoint from which a start resumes, and its messages: the whole launch except verl's training."""

import shutil

import pytest

import rpg.run.train
from rpg.config.run_config import RunConfig
from rpg.run import directory, start
from tests.builders.checkpoints import write_complete
from tests.builders.toy_run import overrides

OPTIM = "actor/optim_world_size_1_rank_0.pt"
TRACKER = "latest_checkpointed_iteration.txt"


@pytest.fixture
def launch(toy, local_cpu, monkeypatch, capsys):
    """Start with further overrides; return exit code, frozen run and stderr."""
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", "set by the run, so taken back at the end")

    def launcher(*more: str) -> tuple[int, RunConfig | None, str]:
        runs: list[RunConfig] = []
        monkeypatch.setattr(rpg.run.train, "train", lambda run, *_: runs.append(run) or 0)
        code = start.start(None, [*overrides(toy), "rpg.preload.early=[]", "rpg.preload.late=[]", *more])
        return code, runs[0] if runs else None, capsys.readouterr().err

    return launcher


def test_a_run_that_was_killed_in_its_first_save_begins_again(toy, launch):
    torn = toy / "run/global_step_4/actor"
    torn.mkdir(parents=True)
    assert launch()[0] == 2  # of nobody's run: a checkpoint of plain verl
    shutil.rmtree(torn.parent)
    assert launch()[0] == 0
    torn.mkdir(parents=True)
    code, _, err = launch()
    assert (code, "begins again" in err) == (0, True)
    (torn.parent / "manifest.json").write_text("")  # of a save that was complete
    assert launch()[0] == 2


def test_a_damaged_newest_one_is_passed_over(toy, launch):
    """config.yaml has the resume path; verl's tracker is unchanged."""
    write_complete(toy / "run", 2, ranks=1)
    (write_complete(toy / "run", 4, ranks=1) / OPTIM).write_bytes(b"")
    code, run, err = launch()
    assert code == 0
    assert run["trainer.resume_mode"] == "resume_path"
    assert run["trainer.resume_from_path"] == str(toy / "run/global_step_2")
    assert f"{toy / 'run'}: global_step_4: {OPTIM}" in err
    assert (toy / "run" / TRACKER).read_text() == "4"
    assert directory.resumed_step(run) == 2  # after which the metrics are cut
    (toy / "run/global_step_2" / OPTIM).write_bytes(b"")
    code, run, err = launch()
    assert (code, run) == (2, None)  # it must not silently start over
    assert "cannot resume from global_step_2: " in err
