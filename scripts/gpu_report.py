#!/usr/bin/env python3
"""Checks of gpu_losses.py and gpu_engine.py: a line each as it comes, and all as JSON; or a table of their JSON files.

python scripts/gpu_report.py losses.json engine.json    # Markdown
"""

import contextlib
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from rpg import gpu_host

Figures = dict[str, Any]


class OutOfBounds(Exception):
    """A check's figure is not within its bound."""


def within(what: str, value: float, bound: float) -> str:
    """Return a figure as text. Raises OutOfBounds if it exceeds the bound or is NaN."""
    if not value <= bound:
        raise OutOfBounds(f"{what} {value:.1e}, allowed {bound:.0e}")
    return f"{value:.1e}"


def require(condition: object, problem: str) -> None:
    """Raise OutOfBounds with the problem unless the condition holds."""
    if not condition:
        raise OutOfBounds(problem)


@contextlib.contextmanager
def process_group(device: str) -> Iterator[None]:
    """Make this process the one rank of a process group: NCCL on a GPU, gloo on a CPU."""
    cuda = device == "cuda"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if cuda:
        torch.cuda.set_device(0)
    with tempfile.TemporaryDirectory() as folder:
        store = torch.distributed.FileStore(f"{folder}/meeting", 1)
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


class Report:
    """The checks of one script on one device."""

    def __init__(self, script: str, device: str, **sizes: int) -> None:
        gpus = gpu_host.visible()
        cuda = device == "cuda"
        self.head: Figures = {
            "script": script,
            "device": gpus[0].name if cuda and gpus else f"{platform.machine()} CPU",
            "driver": gpus[0].driver if cuda and gpus else None,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "python": platform.python_version(),
            **sizes,
        }
        self.checks: list[Figures] = []

    def check(self, name: str, measure: Callable[[], Figures]) -> None:
        """Run a check. Whatever it raises is its result, so that one failure does not hide the others."""
        began = time.perf_counter()
        try:
            with contextlib.redirect_stdout(sys.stderr):  # verl prints; stdout is for the JSON
                figures, ok = measure(), True
        except Exception as error:  # noqa: BLE001 (printed, counted and in the exit code)
            figures, ok = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:400]}, False
            if not isinstance(error, OutOfBounds):
                traceback.print_exc()
        seconds = round(time.perf_counter() - began, 1)
        self.checks.append({"check": name, "ok": ok, "seconds": seconds, "figures": figures})
        print(f"{'ok  ' if ok else 'FAIL'} {seconds:6.1f} s  {name}: {shown(figures)}", file=sys.stderr, flush=True)

    def end(self) -> int:
        """Print the report as JSON; return the exit code, 1 if a check failed."""
        failed = sum(not check["ok"] for check in self.checks)
        print(json.dumps({**self.head, "failed": failed, "checks": self.checks}, indent=2))
        return int(failed > 0)


def shown(figures: Figures) -> str:
    """Return the figures on one line."""
    return ", ".join(f"{name} {value}" for name, value in figures.items() if value is not None)


def rows(file: Path) -> str:
    """Return a report as Markdown."""
    report = json.loads(file.read_text())
    driver = f", driver {report['driver']}" if report["driver"] else ""
    lines = [f"`{report['script']}`, {report['device']}{driver}, torch {report['torch']}:", ""]
    lines += ["| check | | s | figures |", "|---|---|---|---|"]
    lines += [
        f"| {check['check']} | {'ok' if check['ok'] else 'FAIL'} | {check['seconds']:.0f} | {shown(check['figures'])} |"
        for check in report["checks"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n\n".join(rows(Path(file)) for file in sys.argv[1:]))
