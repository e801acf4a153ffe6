"""Custom reward files: choice of the function, verl's call, and the run's configuration."""

import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from rpg.config.compose import compose
from rpg.data.template import format_prompt
from rpg.diagnostics import BadSetting
from rpg.rewards.user_function import RewardError, as_score, reward_file
from rpg.rewards.user_reward import ADAPTER, compute_score, example, sandbox_of

VERLS = "def {name}(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    return 1.0\n"
SHORT = "def {name}(response, answer, row):\n    return float(answer in response and row['level'] == '3')\n"
EXTRA = {"raw_problem": "q", "index": 0, "level": "3"}
TOY = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=t"]
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


TRL = "def {name}(completions, solution, **kwargs): return [float(s in c) for s, c in zip(solution, completions)]"
BATCH = (
    "def {name}(data_sources, solution_strs, ground_truths, extra_infos):\n"
    "    return [{{'score': truth in text}} for truth, text in zip(ground_truths, solution_strs)]"
)
MESSAGES = (
    "def {name}(completions, prompts, answer):\n"
    "    contents = [completion[0]['content'] for completion in completions]\n"
    "    return [float(a in c and p[0]['content'] == 'q') for p, a, c in zip(prompts, answer, contents)]"
)


@pytest.mark.parametrize(
    "sources",
    [
        ["def reward(answer, response): return answer in response"],
        ["from neighbour import compute_score"],
        [
            "try:\n    from no import reward\nexcept ImportError:",
            "    def reward(response, answer): return answer in response",
        ],
        ["def compute_score(response, answer): return answer in response"],
        ["def reward(solution_str, ground_truth, **rest): return ground_truth in solution_str"],
        ["from neighbour import compute_score", SHORT.format(name="reward")],
        ["def extract(text): ...", SHORT.format(name="mine")],
        ["async def reward(response, answer): return answer in response"],
        [TRL.format(name="accuracy_reward")],
        [TRL.format(name="reward").replace("completions,", "prompts, completions,", 1)],
        [MESSAGES.format(name="reward")],
        [BATCH.format(name="compute_score")],
        [BATCH.format(name="mine").replace("def", "async def", 1)],
        ["def compute_score(**kwargs): return kwargs['ground_truth'] in kwargs['solution_str']"],
    ],
)
def test_every_form_that_people_have_is_called(tmp_path: Path, sources: list[str]) -> None:
    write(
        tmp_path / "neighbour.py", "def compute_score(solution_str, ground_truth): return ground_truth in solution_str"
    )
    file = write(tmp_path / "mine.py", *sources)
    assert [score(file, text)["score"] for text in ("7", "8", "17")] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("x = 1", "it has none"),
        (SHORT.format(name="a") + SHORT.format(name="b"), "a, b"),
        ("def reward(response): ...", "completions"),
        ("def reward(text, truth): ...", "response, answer"),
        ("def reward(:", "SyntaxError"),
        ("def reward(question, output, answer): ...", "solution_str, ground_truth"),
        ("def reward(completions, level): return [1]", "missing 1 required"),
        ("def reward(completions): return 1.0", "list of one"),
        ("def reward(completions): return [1.0, 1.0]", "list of one"),
        ("from ..helpers import same", "pkg://PACKAGE.mine"),
    ],
)
def test_refuses_a_file_without_one(tmp_path: Path, source: str, named: str) -> None:
    with pytest.raises(RewardError, match=r"mine\.py|reward") as error:
        compute_score("x", "7", "7", {}, file=str(write(tmp_path / "mine.py", source)))
    assert named in str(error.value)


def test_a_file_in_a_package_and_a_link_to_a_file_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "grading" / "math"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        write(package / "__init__.py", "")
    write(folder.parent / "helpers.py", "def same(a, b): return a == b")
    relative = "from ..helpers import same\ndef reward(response, answer): return same(response, answer)"
    (tmp_path / "reward.py").symlink_to(write(tmp_path / "4fj2-blob", SHORT.format(name="reward")))
    for file in (write(folder / "mine.py", relative), tmp_path / "reward.py", tmp_path / "4fj2-blob"):
        assert [score(file, text)["score"] for text in ("7", "8")] == [1.0, 0.0]


def score(source: Path, response: str = "7", truth: Any = "7", **options: Any) -> dict[str, Any]:
    return dict(compute_score("x", response, truth, EXTRA, file=reward_file(source), **options))


@pytest.mark.parametrize(
    "source",
    [
        "def reward(response, answer): return eval(answer)",
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None): return eval(ground_truth)",
        "async def reward(response, answer): return eval(answer)",
        "def reward(response, answer, scale=1.0, *, row=None): return eval(row['answer'])",
        "def compute_score(solution_strs, ground_truths): return [eval(ground_truths[0])]",
    ],
)
def test_every_form_gives_the_same_keys(tmp_path: Path, source: str) -> None:
    file = write(tmp_path / "mine.py", source)
    for value, expected in {
        "True": {"score": 1.0, "acc": 1.0, "pred": ""},
        "-0.5": {"score": -0.5, "acc": -0.5, "pred": ""},
        "{'score': 0.5, 'format': True}": {"score": 0.5, "acc": 0.5, "format": 1.0, "pred": ""},
        "{'score': 0.5, 'acc': 0, 'pred': 3}": {"score": 0.5, "acc": 0.0, "pred": "3"},
    }.items():
        assert score(file, truth=value) == expected


@pytest.mark.parametrize(
    "number", [1, 0.25, True, np.float32(0.25), np.int64(3), np.bool_(True), np.array(2.0), Fraction(1, 2), Decimal(1)]
)
def test_what_python_and_numpy_call_a_number_is_one(number: Any) -> None:
    made = as_score({"score": number, "format": number}, "mine")
    assert made == {"score": float(number), "acc": float(number), "format": float(number), "pred": ""}
    assert {type(value) for value in made.values()} == {float, str}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "score=None"),
        ("1", "score='1'"),
        (float("nan"), "score=nan"),
        ({"acc": 1.0}, "score=None"),
        ({"score": 1.0, "acc": float("inf")}, "acc=inf"),
        ({"score": 1.0, "parts": {"format": 1.0}}, "parts={'format': 1.0}"),
        ({"score": 1.0, "parts": [1.0]}, r"parts=\[1.0\]"),
        ({"score": 1.0, "format": None}, "format=None"),
        ({"score": 1.0, "why": "no box"}, "why='no box'.*pred"),
        ({"score": 1.0, "format": 1j}, "format=1j"),
        ({"score": 1.0, "output": 1.0}, "the key 'output'"),
        ({"score": 1.0, 3: 1.0}, "the key 3"),
    ],
)
def test_what_is_no_number_is_refused_by_name(value: Any, named: str) -> None:
    with pytest.raises(RewardError, match=f"^mine: (returns )?{named}"):
        as_score(value, "mine")


MATH_VERIFY = """
from math_verify import parse, verify

def reward(response, answer):
    return float(verify(parse(f"${answer}$"), parse(response)))
"""
POOL = """
from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

@dataclass
class Grade:
    value: float

def grade(response, answer):
    return Grade(float(answer in response))

def compute_score(data_source, solution_str, ground_truth, extra_info):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("{method}")) as pool:
        return pickle.loads(pickle.dumps(pool.submit(grade, solution_str, ground_truth).result())).value
"""
ALARM = """
import signal

def reward(response, answer):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.alarm(1)
    return answer in response
"""
NEIGHBOUR = "from neighbour import compute_score"
COMMAND = """
import subprocess

def reward(response, answer):
    return subprocess.run(["test", response, "=", answer]).returncode == 0
"""


@pytest.mark.parametrize(
    "source",
    [MATH_VERIFY, POOL.replace("{method}", "fork"), POOL.replace("{method}", "spawn"), ALARM, COMMAND, NEIGHBOUR],
)
def test_what_rewards_use_works_though_verl_calls_in_threads(tmp_path: Path, source: str) -> None:
    write(tmp_path / "neighbour.py", VERLS.format(name="compute_score").replace("1.0", "solution_str == ground_truth"))
    file = write(tmp_path / "mine.py", source)
    with ThreadPoolExecutor(4) as threads:
        scores = list(threads.map(lambda response: score(file, response)["score"], ["7", "8"] * 4))
    assert scores == [1.0, 0.0] * 4


@pytest.mark.parametrize("name", ["reward.v2.py", "code.py", "my reward.py", "class.py"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_finds_a_file_of_any_name(tmp_path: Path, name: str, method: str) -> None:
    file = write(tmp_path / name, POOL.replace("{method}", method))
    assert [score(file, response)["score"] for response in ("7", "8")] == [1.0, 0.0]


FAILING = """
import os, sys, time

def hang():
    while True:
        pass

def raises():
    raise KeyError("no such problem")

def reward(response, answer):
    return eval(answer)

def long():
    raise ValueError("x" * 3_000_000)

class Mute(Exception):
    def __str__(self):
        raise KeyError

def mute():
    raise Mute
"""


def test_a_function_that_fails_costs_one_response(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.py", FAILING)
    for call, why in {
        "raises()": r"^KeyError: 'no such problem' \(.*mine.py, line 9\)$",
        "sys.exit()": "SystemExit",
        "long()": r"^ValueError: x{1000}\D{,20}2999000.{,150}line 15\)$",
        "{'x' * 3_000_000: 1}": r"^.{,1050}$",  # a mapping without a score
        "mute()": r"^Mute: .*KeyError.*line 22\)$",
        "next(iter([]))": "StopIteration",
        "os._exit(1)": "its process ended",
        "hang()": r"^the reward took more than 0.5 s \(rpg.reward_limit\)$",
        "time.sleep(60)": "took more than 0.5 s",
        "9 ** 9 ** 9": "took more than 0.5 s",  # holds Python's lock: no thread could be stopped
    }.items():
        limit = 0.5 if "took more" in why else 60  # on a busy machine an exception, too, takes a second
        with pytest.raises(RewardError, match=why):
            score(file, truth=call, reward_limit=limit)
        assert score(file, truth="0.5", reward_limit=60)["score"] == 0.5


CALLED = """
import os, queue, subprocess
def reward(response, answer, strict=False):
    if response == "fork":
        os.fork()  # and return in both processes
    if response == "process":
        return subprocess.Popen(["sleep", "987"]).pid
    if response == "threads":
        return int(os.environ["OMP_NUM_THREADS"])
    if response == "error":
        return os.environ["NO_SUCH_NAME"]
    return float(bool(strict)) if answer == "strict" else float(answer)
"""


def test_the_call_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A default stays, a fork shifts no score, what it starts ends with it; the working directory shadows nothing."""
    for name in ("queue.py", "rpg.py"):
        (tmp_path / name).write_text("raise RuntimeError('not the library')")
    (tmp_path / "named").mkdir()
    (tmp_path / "named/reward.py").write_text("raise RuntimeError('old')")
    monkeypatch.chdir(tmp_path)
    of_packages = [path for path in sys.path if not Path(path, "rpg/__init__.py").is_file()]  # as `rpg` has it
    monkeypatch.setattr(sys, "path", of_packages)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    file = str(write(tmp_path / "named/reward.v2.py", CALLED))

    def score(response: str, answer: str = "0", **options: Any) -> float:
        return compute_score(np.str_("x"), response, answer, None, file=file, function="reward", **options)["score"]

    assert [score("", "strict"), score("", "strict", strict=True), score("threads")] == [0, 1, 1]
    assert [score("fork", "1"), score("", "2"), score("fork", "3"), score("", "4")] == [1, 2, 3, 4]
    with pytest.raises(RewardError, match=r"NO_SUCH_NAME.*reward\.v2\.py, line 11"):
        score("error")
    started = psutil.Process(int(score("process")))
    sandbox_of(file, "reward").stop()
    with contextlib.suppress(psutil.NoSuchProcess):
        started.wait(20)


def test_what_verl_passes_is_plain(tmp_path: Path) -> None:
    """verl's data_source is a text of numpy's, and rows without extra_info give {}; `rpg score` gives None."""
    source = (
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return float(type(data_source) is str and extra_info.get('level', 1))"
    )
    call = {"file": str(write(tmp_path / "mine.py", source)), "function": "compute_score"}
    assert [compute_score(name, "", "", extra, **call)["score"] for name in ("x", np.str_("x")) for extra in (None, {})]


@pytest.mark.parametrize("name", ["file", "function", "reward_limit", "data_source"])
def test_keywords_of_the_call_are_refused(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "mine.py", SHORT.format(name="reward"))
    with pytest.raises(BadSetting, match=f"reward_kwargs.{name}"):
        compose(None, [*TOY, f"{FUNCTION}.path={file}", f"+{FUNCTION}.reward_kwargs.{name}=1"])


def test_math_verifys_own_limit_counts_as_wrong(tmp_path: Path) -> None:
    source = MATH_VERIFY.replace("parse(response))", "parse(response), timeout_seconds=1)")
    assert score(write(tmp_path / "mine.py", source), "$9^{9^{9}}$", "7", reward_limit=60)["score"] == 0.0


def test_a_file_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.py", "import no_such_package", SHORT.format(name="reward"))
    with pytest.raises(RewardError, match=r"mine\.py: cannot be imported: ModuleNotFoundError: .*no_such_package"):
        score(file)
    mute = "class Mute(Exception):\n    def __str__(self):\n        raise KeyError\nraise Mute"
    file = write(tmp_path / "mute.py", SHORT.format(name="reward"), mute)
    with pytest.raises(RewardError, match=r"mute\.py: cannot be imported: Mute"):
        score(file)


def test_a_section_of_overrides_names_the_function(tmp_path: Path) -> None:
    file = write(tmp_path / "two.py", VERLS.format(name="compute_score"), SHORT.format(name="mine"))
    run, _ = compose(None, [*TOY, f"{FUNCTION}={{path:{file},name:mine}}"])
    assert run[f"{FUNCTION}.reward_kwargs"]["function"] == "mine"
    assert run[OVERLONG] is False


def test_one_override_is_all_that_a_run_needs(tmp_path: Path) -> None:
    short = write(tmp_path / "short.py", SHORT.format(name="reward"))
    run, notes = compose(None, [*TOY, f"{FUNCTION}.path={short}"])
    assert run[f"{FUNCTION}.path"] == ADAPTER
    assert run[f"{FUNCTION}.reward_kwargs"] == {"file": str(short)}
    assert run[OVERLONG] is False
    assert any(OVERLONG in note for note in notes)

    verls = write(tmp_path / "verls.py", VERLS.format(name="mine"))
    scaled = [f"+{FUNCTION}.reward_kwargs.scale=2", f"{OVERLONG}=true"]
    run, notes = compose(None, [*TOY, f"{FUNCTION}.path={verls}", *scaled])
    assert [run[f"{FUNCTION}.{key}"] for key in ("path", "name")] == [ADAPTER, "compute_score"]
    assert run[f"{FUNCTION}.reward_kwargs"] == {"file": str(verls), "scale": 2}
    assert run[OVERLONG] is True
    assert notes == ()

    run, _ = compose(None, TOY)
    assert [run[f"{FUNCTION}.reward_kwargs.judge"], run[OVERLONG]] == ["release", True]


@pytest.mark.parametrize(
    ("prompt", "boxed", "line"),
    [
        (format_prompt("What is 1 + 2?"), False, True),
        ("What is 1 + 2? Put it into \\boxed{}.", True, False),
        ("Put it into \\boxed{} behind Answer:", True, True),
        ("What is 1 + 2?", True, True),
    ],
)
def test_a_made_up_response_has_the_form_that_the_prompt_asks_for(prompt, boxed, line):
    response = example(3, [{"role": "user", "content": prompt}])
    assert ("\\boxed{3}" in response, "Answer: 3" in response) == (boxed, line)
