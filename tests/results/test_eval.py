"""`rpg eval RUN`: the configuration that it begins, and rejected input. tests/e2e/test_evaluation.py evaluates runs."""

from pathlib import Path

import pytest

from rpg.cli import main
from rpg.config.compose import of_script
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, FUNCTION, MODEL, ROLLOUT
from rpg.dotted import leaves
from rpg.registry import scripts
from rpg.results import eval_command
from rpg.results.eval_command import evaluation
from tests.builders.checkpoints import write_complete

CHANGED = {
    "trainer.val_only", "trainer.val_before_train", "trainer.default_local_dir", "trainer.validation_data_dir",
    "trainer.resume_mode", "trainer.resume_from_path", f"{ACTOR}.checkpoint.load_contents",
}  # fmt: skip


@pytest.fixture(scope="module")
def config() -> RunConfig:
    """Return the configuration of a training with a response length and a reward of its own."""
    own = ["data.max_response_length=48", f"{MODEL}.path=/models/mine", f"rpg.reward={__file__}"]
    return of_script(scripts.find("rpg_cpu_urkl1e-4"), own)


@pytest.fixture
def trained(tmp_path: Path, config: RunConfig) -> Path:
    """Return the directory of a run with a checkpoint of step 4."""
    run = tmp_path / "run"
    write_complete(run, 4)
    (run / "config.yaml").write_text(config.yaml())
    return run


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """Return the configurations that `rpg eval` begins, none of which runs."""
    runs: list[RunConfig] = []
    monkeypatch.setattr(eval_command, "begin", lambda run, command: runs.append(run) or 7)
    return runs


def test_it_is_the_trained_configuration_in_every_key_but_seven(config, tmp_path):
    here = evaluation(config.config, tmp_path / "global_step_4", tmp_path / "out", [])
    before, after = dict(leaves(config.config)), dict(leaves(here))
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} <= CHANGED
    assert (after["trainer.val_only"], after["trainer.resume_mode"]) == (True, "resume_path")
    assert after["trainer.resume_from_path"] == str(tmp_path / "global_step_4")


def test_flags_are_overrides_of_the_runs_settings(trained, begun, tmp_path):
    flags = ["--judge", "verified", "--out", tmp_path / "out", "--test", "/a.parquet", "/b.parquet", "--model", "Q/Q"]
    assert main(["eval", *map(str, [trained / "global_step_4", "data.max_prompt_length=9", *flags])]) == 7
    (run,) = begun
    assert run[f"{FUNCTION}.reward_kwargs"] == {"judge": "verified"}  # in place of the run's own reward
    assert run.files("val") == ["/a.parquet", "/b.parquet"]
    assert (run[f"{MODEL}.path"], run["data.val_max_samples"]) == ("Q/Q", -1)
    assert (run[f"{ROLLOUT}.prompt_length"], run[f"{ROLLOUT}.response_length"]) == (9, 48)  # which verl reads
    assert (run["data.max_prompt_length"], run["data.max_response_length"]) == (9, 48)
    assert str(run.directory) == str(tmp_path / "out")


def test_what_cannot_be_evaluated_is_refused(trained, begun, tmp_path, capsys):
    def refused(*arguments: object) -> str:
        assert main(["eval", *map(str, arguments)]) == 2
        return capsys.readouterr().err

    assert "give the directory of a run" in refused(tmp_path / "none")
    assert f"set {ROLLOUT}.val_kwargs.temperature" in refused(trained, f"{ROLLOUT}.temperature=0.6")
    assert "trainer.resume_mode: the command sets" in refused(trained, "trainer.resume_mode=disable")  # untrained
    assert "give one of them" in refused(trained, "--judge", "verified", "--reward", __file__)
    (data := trained / "global_step_4/data.pt").unlink()
    assert "data.pt has 0 of " in refused(trained / "global_step_4")
    data.write_bytes(b"data")
    (trained / "eval-global_step_4").mkdir()
    (trained / "eval-global_step_4/metrics.jsonl").touch()  # of an evaluation that would be overwritten
    assert "eval-global_step_4: already contains a run" in refused(trained)
    (trained / "config.yaml").write_text("- no mapping")
    assert "config.yaml" in refused(trained, "--out", tmp_path / "other")
    assert not begun
