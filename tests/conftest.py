"""Makes all tests reproducible, however pytest was started.

Property tests use the same examples in every run; `pytest --hypothesis-profile=default --hypothesis-seed=N` tries
others. Hydra reads YAML by libyaml, which takes a third off each of several hundred compositions. Signals reach the
tests' children: a background job of a script ignores SIGINT, one under nohup SIGHUP, and its children would inherit
that. A handler is not inherited.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
yaml.SafeLoader = yaml.CSafeLoader  # of which OmegaConf's loader is a subclass
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_collection_finish() -> None:
    """Compute with one thread, whose sums have one order, where a collected file has imported torch."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Return a directory with the toy run's data and a fake model directory."""
    from tests.builders.toy_run import make_toy  # tests/gpu also runs where verl is missing

    return make_toy(tmp_path)


@pytest.fixture
def local_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verl choose the CPU, and no cluster be there."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave PATH and LANG, with home and working directory in tmp_path; what a test sets is gone after it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ, {**kept, "HOME": str(tmp_path)}, clear=True):
        yield
