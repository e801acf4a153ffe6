"""Custom reward files: choice of the function, its call and its faults, and the run's configuration."""

import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from rpg.config.compose import compose
from rpg.diagnostics import Refused
from rpg.rewards.user_reward import ADAPTER, RewardError, compute_score, reward_file, sandbox_of
from tests.builders.toy_run import CPU as TOY

VERL = (
    "def {name}(solution_str, ground_truth, extra_info):\n"
    "    return float(ground_truth in solution_str and extra_info['level'] == '3')\n"
)
TRL = "def {name}(completions, solution, **kwargs): return [float(s in c) for s, c in zip(solution, completions)]"
BATCH = (
    "def {name}(data_sources, solution_strs, ground_truths, extra_infos):\n"
    "    return [{{'score': truth in text}} for truth, text in zip(ground_truths, solution_strs)]"
)
OPEN = "def compute_score(**columns): return columns['ground_truth'] in columns['solution_str']"
LENIENT = "def mine(solution_str, ground_truth, strict=False): return not strict or ground_truth in solution_str"
EXTRA = {"raw_problem": "q", "index": 0, "level": "3"}
FUNCTION = "reward.custom_reward_function"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg.enable"


@pytest.fixture(autouse=True)
def end_children() -> Iterator[None]:
    """End the processes of each file; otherwise they live as long as this one."""
    yield
    sandbox_of.cache_clear()


def write(path: Path, *sources: str) -> Path:
    path.write_text("\n".join(sources))
    return path


def score(source: Path, response: str = "7", truth: Any = "7", **options: Any) -> dict[str, Any]:
    return dict(compute_score("x", response, truth, EXTRA, file=reward_file(source), **options))


@pytest.mark.parametrize(
    "sources",
    [
        ["def reward(ground_truth, solution_str): return ground_truth in solution_str"],
        ["def reward(response, answer, row): return (answer, row['level'], row['question']) == (response, '3', 'q')"],
        ["from neighbour import compute_score", VERL.format(name="reward")],
        ["from neighbour import timed", "def mine(solution_str, ground_truth): return 0.5", "@timed", OPEN],
        ["from functools import partial", LENIENT, "reward = partial(mine, strict=True)"],
        ["class Grade(dict):", "    def __init__(self, **scores): self.update(scores)", VERL.format(name="mine")],
        [TRL.format(name="accuracy_reward")],
        [TRL.format(name="reward").replace("completions,", "prompts, completions,", 1)],
        [TRL.format(name="accuracy").replace("s in c", "s in c[0]['content']")],
        [BATCH.format(name="mine").replace("def", "async def", 1)],
        [OPEN],
    ],
)
def test_every_form_that_people_have_is_called(tmp_path: Path, sources: list[str]) -> None:
    decorator = "def timed(function): return lambda **arguments: function(**arguments)"
    write(tmp_path / "neighbour.py", "def compute_score(solution_str, ground_truth): return 0.5", decorator)
    file = write(tmp_path / "mine.py", *sources)
    assert [score(file, text) for text in ("7", "8")] == [{"score": x, "acc": x, "pred": ""} for x in (1.0, 0.0)]


def test_a_kept_column_is_not_replaced_by_the_truth(tmp_path: Path) -> None:
    trl = "def reward(completions, solution, answer): return [len(solution[0]) + len(answer[0])]"
    file, kept = write(tmp_path / "mine.py", trl), {"solution": "worked"}
    assert compute_score("x", "7", "7", kept, file=str(file))["score"] == len("worked") + len("7")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("x = 1", "completions"),
        (VERL.format(name="a") + VERL.format(name="b"), "a, b.*compute_score"),
        ("from json import dumps as reward\n" + VERL.format(name="a"), "a, reward.*compute_score"),
        ("def same(response, answer): return 1\ndef reward(prompt, text): return 0", "reward .*: same.*completions"),
        ("import no_such_package", r"cannot be imported: ModuleNotFoundError: .*no_such_package.*line 1\)$"),
        ("class Mute(Exception):\n    def __str__(self): raise KeyError\nraise Mute", "Mute: <exception str"),
        ("def reward(completions): return [1.0, 1.0]", "list of one"),
        ("from ..helpers import same", "pkg://PACKAGE.mine"),
        ("def reward(completions): return [1 + completions[0]]", "unsupported operand .* 'int' and 'str'"),
    ],
)
def test_refuses_a_file_without_one(tmp_path: Path, source: str, named: str) -> None:
    with pytest.raises(RewardError, match=named):
        compute_score("x", "7", "7", {}, file=str(write(tmp_path / "mine.py", source)))


def test_a_link_to_a_file_of_any_name_and_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reward.py").symlink_to(write(tmp_path / "4fj2-blob", VERL.format(name="reward")))
    (tmp_path / "grading").mkdir()
    for name, source in (("__init__", ""), ("helpers", "def same(a, b): return a == b")):
        write(tmp_path / f"grading/{name}.py", source)
    relative = (
        "from .helpers import same\ndef reward(solution_str, ground_truth): return same(solution_str, ground_truth)"
    )
    write(tmp_path / "grading/mine.py", relative)
    monkeypatch.chdir(tmp_path)
    for file in (tmp_path / "reward.py", "pkg://grading.mine"):
        assert [score(file, text)["score"] for text in ("7", "8")] == [1.0, 0.0]


POOL = """
from __future__ import annotations

import multiprocessing
import pickle
import signal
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

@dataclass
class Grade:
    value: float

def grade(response, answer):
    return Grade(float(answer in response))

def compute_score(data_source, solution_str, ground_truth, extra_info):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.alarm(1)
    subprocess.run(["true"], check=True)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("{method}")) as pool:
        return pickle.loads(pickle.dumps(pool.submit(grade, solution_str, ground_truth).result())).value
"""


@pytest.mark.parametrize("name", ["my reward.py", "code.py"])
def test_alarms_and_pools_work_though_verl_calls_in_threads(tmp_path: Path, name: str) -> None:
    method = {"my reward.py": "fork", "code.py": "spawn"}[name]
    file = write(tmp_path / name, POOL.replace("{method}", method))
    with ThreadPoolExecutor(2) as threads:
        scores = list(threads.map(lambda response: score(file, response)["score"], ["7", "8"] * 2))
    assert scores == [1.0, 0.0] * 2


FAILING = """
import os, sys, fractions, numpy

def hang():
    while True:
        pass

def raises():
    raise KeyError("no such problem")

def reward(solution_str, ground_truth):
    return eval(ground_truth)

def long():
    raise ValueError("x" * 3_000_000)
"""


def test_a_function_that_fails_costs_one_response(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.py", FAILING)
    for call, why in {
        "raises()": r"^KeyError: 'no such problem' \(.*mine.py, line 9\)$",
        "sys.exit()": "SystemExit",
        "long()": r"^ValueError: x{900,1000}\D{,20}3000012.{,150}line 15\)$",
        "{'x' * 3_000_000: 1}": r"^.{,1050}$",  # a mapping without a score
        "None": ", reward: score=None is not a finite number",
        "'1'": "score='1'",
        "{'score': 1.0, 'acc': numpy.nan}": "acc=nan",
        "{'score': 1.0, 'parts': [1.0]}": r"parts=\[1.0\]",
        "{'score': 1.0, 'output': 1.0}": "the key 'output'",
        "bytearray(3 << 30)": "^MemoryError.*2 GiB.*RLIMIT_DATA",
        "os._exit(1)": "its process ended",
        "hang()": r"^the reward took more than 0.5 s \(rpg.reward_limit\)$",
        "9 ** 9 ** 9": "took more than 0.5 s",  # holds Python's lock: no thread could be stopped
    }.items():
        limit = 0.5 if "took more" in why else 60  # on a busy machine an exception, too, takes a second
        with pytest.raises(RewardError, match=why):
            score(file, truth=call, reward_limit=limit)
        assert score(file, truth="0.5", reward_limit=60)["score"] == 0.5


def test_what_python_and_numpy_call_a_number_is_one(tmp_path: Path) -> None:
    """Texts beside them are left out."""
    file = write(tmp_path / "mine.py", FAILING)
    for number, value in (("numpy.float32(0.25)", 0.25), ("numpy.bool_(True)", 1.0), ("fractions.Fraction(1, 2)", 0.5)):
        call = f"{{'score': {number}, 'format': {number}, 'pred': 3, 'gold': '7', 'rest': None}}"
        made = score(file, truth=call, reward_limit=60)
        assert made == {"score": value, "acc": value, "format": value, "pred": "3"}
        assert {type(value) for value in made.values()} == {float, str}


def test_acc_is_returned_for_each_response_or_none(tmp_path: Path) -> None:
    """verl's mean of acc would mix accuracies and scores; a score of 0 or 1 is an accuracy as it is."""
    file = write(tmp_path / "mine.py", FAILING)
    for truth in ("{'score': 2.0, 'acc': 1.0}", "0", "{'score': 1}"):
        assert score(file, truth=truth)["acc"] in (0, 1)
    with pytest.raises(RewardError, match="reward: returns `acc` for some responses"):
        score(file, truth="-1")


CALLED = """
import os, queue, resource, subprocess
resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, resource.RLIM_INFINITY))
def reward(data_source, solution_str, ground_truth, extra_info, strict=False):
    if solution_str == "fork" and os.fork() == 0:
        raise KeyError  # in the new process, which must not answer
    if solution_str == "process":
        return subprocess.Popen(["sleep", "987"]).pid
    if solution_str == "own limit":
        return resource.getrlimit(resource.RLIMIT_DATA)[0] == 8 << 30
    if solution_str == "plain":  # verl's data_source is a text of numpy's, and `rpg score` gives None for extra_info
        return type(data_source) is str and extra_info == {}
    return float(bool(strict)) if ground_truth == "strict" else float(ground_truth)
"""


def test_the_call_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A default stays, a fork shifts no score, what it starts ends with it; the working directory shadows nothing."""
    for name in ("queue.py", "rpg.py"):
        (tmp_path / name).write_text("raise RuntimeError('not the library')")
    monkeypatch.chdir(tmp_path)
    of_packages = [path for path in sys.path if not Path(path, "rpg/__init__.py").is_file()]  # as `rpg` has it
    monkeypatch.setattr(sys, "path", of_packages)
    (tmp_path / "named").mkdir()
    file = str(write(tmp_path / "named/reward.v2.py", CALLED))

    def score(response: str, answer: str = "0", **options: Any) -> float:
        return compute_score(np.str_("x"), response, answer, None, file=file, function="reward", **options)["score"]

    assert [score("", "strict"), score("", "strict", strict=True), score("own limit"), score("plain")] == [0, 1, 1, 1]
    assert [score("fork", "1"), score("", "2"), score("fork", "3"), score("", "4")] == [1, 2, 3, 4]
    started = psutil.Process(int(score("process")))
    sandbox_of(file, "reward").stop()
    with contextlib.suppress(psutil.NoSuchProcess):
        started.wait(20)


def test_one_override_is_all_that_a_run_needs(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.py", VERL.format(name="reward"))
    kwargs = [f"+{FUNCTION}.reward_kwargs.{option}" for option in ("function=mine", "scale=2")]
    run, _ = compose(None, [*TOY, f"rpg.reward={file}", *kwargs])
    assert [run[f"{FUNCTION}.{key}"] for key in ("path", "name")] == [ADAPTER, "compute_score"]
    assert run[f"{FUNCTION}.reward_kwargs"] == {"file": str(file), "function": "mine", "scale": 2}
    assert (run[OVERLONG], run.name) == (False, "t")
    assert compose(None, [*TOY, f"rpg.reward={file}", f"{OVERLONG}=true"])[0][OVERLONG] is True
    assert compose(None, TOY)[0][OVERLONG] is True
    with pytest.raises(Refused, match=r"rpg.reward=.*: has no effect with judge=verified"):
        compose(None, [*TOY, f"rpg.reward={file}", "judge=verified"])
