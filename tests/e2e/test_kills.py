"""A campaign of SIGKILLs at random moments, each followed by the same command.

A run of 30 steps is killed RPG_KILLS=6 times, once per target; 90 s per kill on two free cores.
"""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from rpg.files import manifest
from rpg.files.integrity import newest_complete
from rpg.results.runs import load
from rpg.run import cleanup
from rpg.toy.demo import DEMOS
from tests.e2e.conftest import PATIENCE, Run
from tests.e2e.short_run import starts

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SEEDS = [int(seed) for seed in os.environ.get("RPG_KILL_SEEDS", "0").split(",")]
MOST = int(os.environ.get("RPG_KILLS", "6"))  # kills of one run
STEPS = 30  # as in the demo, whose gain a killed run must reach too
SETTINGS = [
    *DEMOS["toy"].settings,
    f"trainer.total_training_steps={STEPS}",
    f"trainer.test_freq={STEPS}",
    "trainer.val_before_train=true",
    "trainer.save_freq=2",
    "trainer.max_actor_ckpt_to_keep=2",
]
# who is killed, by the beginning of its command line; None: a moment within a save, then the driver
TARGETS = {
    "driver": None,
    "actor": "ray::WorkerDict",
    "vLLM server": "ray::vLLMHttpServer",
    "vLLM engine": "VLLM::",
    "Ray head": "gcs_server",
    "save": None,
}


def wait_for_a_moment(run: Run, before: int, chance: random.Random) -> str:
    """Wait for a random moment of the start or of a step. before: starts before this one."""
    begun = time.monotonic()
    if chance.random() < 0.2:  # while the run starts, which takes 40 to 60 s
        time.sleep(chance.uniform(2, 40))
        return "start"
    while len(starts(run.directory)) == before:
        time.sleep(0.2)
        assert run.process.poll() is None, run.text()[-2000:]
    time.sleep(1)
    steps = len(run.metrics()) + chance.randint(1, 2)
    while len(run.metrics()) < steps and run.process.poll() is None:
        time.sleep(0.2)
        assert time.monotonic() - begun < PATIENCE, run.text()[-2000:]
    time.sleep(chance.uniform(0, 9))  # a step's length
    return "step"


def kill(run: Run, target: str, before: int, chance: random.Random) -> str:
    """Wait for a random moment and kill; return the target and the time."""
    moment = wait_for_a_moment(run, before, chance)
    victims: list[psutil.Process] = []
    if target == "save":
        until = time.monotonic() + 60
        unfinished: list[Path] = []
        while not unfinished and time.monotonic() < until and run.process.poll() is None:
            saves = run.directory.glob("global_step_*")
            unfinished = [path for path in saves if not (path / manifest.NAME).exists()]
        moment = f"save of {unfinished[0].name}" if unfinished else moment
        victims = run.processes()  # all at once, so that nobody ends the save
    elif target == "vLLM engine":  # what its server starts
        victims = [child for server in run.named("ray::vLLMHttpServer") for child in server.children(recursive=True)]
    elif TARGETS[target]:
        victims = run.named(TARGETS[target])
    if not victims:  # not there yet, or the driver is meant
        target = "driver" if target != "save" else target
        victims = [psutil.Process(run.process.pid)] if run.process.poll() is None else []
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
    return f"{target} at {moment}"


@pytest.mark.parametrize("seed", SEEDS)
def test_kills(start, seed, capsys):
    chance = random.Random(seed)
    kills, directory = 0, None
    while kills < MOST:
        if kills % len(TARGETS) == 0:
            order = chance.sample(list(TARGETS), len(TARGETS))
        before = len(starts(directory)) if directory else 0
        run = start(*SETTINGS, *([f"trainer.default_local_dir={directory}"] if directory else []))
        directory = run.directory = directory or run.directory
        said = kill(run, order[kills % len(TARGETS)], before, chance)
        finished = run.process.poll() == 0
        run.wait(PATIENCE)
        assert run.survivors() == []
        if finished:
            break
        kills += 1
        newest = newest_complete(directory).newest
        steps = [record["step"] for record in run.metrics()]
        assert steps == sorted(set(steps)), steps
        with capsys.disabled():
            at = newest.name if newest else "no checkpoint"
            print(f"  {kills:2} {said}: exit code {run.process.returncode}, metrics to {steps[-1:]}, {at}", flush=True)
    run = start(*SETTINGS, f"trainer.default_local_dir={directory}")
    run.directory = directory
    assert run.wait(2 * PATIENCE) == 0, run.text()[-3000:]
    assert run.survivors() == []
    assert [record["step"] for record in run.metrics()] == list(range(STEPS + 1))
    assert cleanup.remove_weights() == []
    curve = load(directory).accuracies["toy sums"]
    first, end = curve[0], curve[STEPS]
    with capsys.disabled():
        outcome = f"{kills} kills, {len(starts(directory))} starts, accuracy {first:.3f} -> {end:.3f}"
        print(f"  seed {seed}: {outcome}", flush=True)
    assert end - first >= DEMOS["toy"].gain
