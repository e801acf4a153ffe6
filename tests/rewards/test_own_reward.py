"""Custom reward files: choice of the function, verl's call, and the run's configuration."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rpg.launching.compose import configured
from rpg.rewards.user_reward import ADAPTER, RewardError, as_score, compute_score, find_reward

VERLS = "def {name}(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    return 1.0\n"
SHORT = "def {name}(response, answer, row):\n    return float(answer in response and row['level'] == '3')\n"
TOY = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=t"]
FUNCTION = "reward.custom_reward_function"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg.enable"


def write(path: Path, *sources: str) -> Path:
    path.write_text("\n".join(sources))
    return path


@pytest.mark.parametrize(
    ("sources", "function", "is_verls"),
    [
        ([VERLS.format(name="compute_score")], "compute_score", True),
        ([VERLS.format(name="mine")], "mine", True),
        ([SHORT.format(name="reward")], "reward", False),
        ([SHORT.format(name="mine"), "def _helper(x): ..."], "mine", False),
        ([SHORT.format(name="mine"), VERLS.format(name="compute_score")], "compute_score", True),
        (["def compute_score(response, answer): return 1"], "compute_score", False),
    ],
)
def test_finds_the_function(tmp_path: Path, sources: list[str], function: str, is_verls: bool) -> None:
    reward = find_reward(write(tmp_path / "mine.py", *sources))
    assert (reward.function, reward.is_verls) == (function, is_verls)


@pytest.mark.parametrize(
    "source", ["x = 1", "def a(r, b): ...\ndef b(r, b): ...", "def reward(response): ...", "def reward(:"]
)
def test_refuses_a_file_without_one(tmp_path: Path, source: str) -> None:
    with pytest.raises(RewardError, match=r"mine\.py"):
        find_reward(write(tmp_path / "mine.py", source))


def test_the_short_form_gets_the_row(tmp_path: Path) -> None:
    file = str(write(tmp_path / "mine.py", SHORT.format(name="reward")))
    extra = {"raw_problem": "q", "index": 0, "level": "3"}
    scores = [compute_score("x", text, "7", extra, file=file, function="reward")["score"] for text in ("7", "8")]
    assert scores == [1.0, 0.0]
    assert compute_score("x", "7", "7", {**extra, "level": "1"}, file=file, function="reward")["score"] == 0.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, {"score": 1.0, "acc": 1.0, "pred": ""}),
        (-0.5, {"score": -0.5, "acc": -0.5, "pred": ""}),
        ({"score": 0.5, "acc": 0, "length": 3}, {"score": 0.5, "acc": 0.0, "pred": "", "length": 3}),
    ],
)
def test_what_verl_reads(value: Any, expected: dict[str, Any]) -> None:
    assert as_score(value, "mine") == expected


@pytest.mark.parametrize("value", [None, "1", float("nan"), {"acc": 1.0}, {"score": 1.0, "acc": float("inf")}])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(RewardError, match="mine"):
        as_score(value, "mine")


def test_one_override_is_all_that_a_run_needs(tmp_path: Path) -> None:
    short = write(tmp_path / "short.py", SHORT.format(name="reward"))
    notes: list[str] = []
    run = configured([*TOY, f"{FUNCTION}.path={short}"], notes)
    assert run.get(f"{FUNCTION}.path") == ADAPTER
    assert run.get(f"{FUNCTION}.reward_kwargs") == {"file": str(short), "function": "reward"}
    assert run.get(OVERLONG) is False
    assert any(OVERLONG in note for note in notes)

    verls = write(tmp_path / "verls.py", VERLS.format(name="mine"))
    run = configured([*TOY, f"{FUNCTION}.path={verls}", f"{OVERLONG}=true"], notes := [])
    assert [run.get(f"{FUNCTION}.{key}") for key in ("path", "name", "reward_kwargs")] == [str(verls), "mine", {}]
    assert run.get(OVERLONG) is True
    assert notes == []

    run = configured(TOY, notes := [])
    assert [run.get(f"{FUNCTION}.reward_kwargs.judge"), run.get(OVERLONG)] == ["release", True]


@pytest.mark.full  # importing verl takes ten seconds
def test_verl_loads_it(tmp_path: Path) -> None:
    from verl.trainer.ppo.reward import get_custom_reward_fn

    file = write(tmp_path / "short.py", SHORT.format(name="reward"))
    run = configured([*TOY, f"{FUNCTION}.path={file}"], [])
    function = get_custom_reward_fn(OmegaConf.create(run.copy()))
    assert function is not None
    assert function(data_source="x", solution_str="7", ground_truth="7", extra_info={"level": "3"})["score"] == 1.0
