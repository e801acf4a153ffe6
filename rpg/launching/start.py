"""Start a run: compose, freeze, check, then run verl's trainer on Ray, here or as a cluster job."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from rpg.checks import fingerprint, secrets, settings
from rpg.checks.check import Cost, Refused, Run, Subject
from rpg.launching import RayWasLate, cleanup, freeze, rundir, signals, submit
from rpg.launching.compose import configured
from rpg.launching.overrides import BadSetting, override

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

STARTS = 3
TRIED = "RPG_STARTS_TRIED"  # set for the next process


def main(argv: list[str]) -> int:
    """Run with Hydra overrides; return the exit code (signals.py).

    launch.sh prepends --script=NAME: the value of rpg.script, not quoted for Hydra.
    """
    overrides, notes = [*argv], []
    try:
        if overrides and overrides[0].startswith("--script="):
            overrides[0] = override("rpg.script", overrides[0].removeprefix("--script="))
        only_print = dry_run()
        run = configured(overrides, notes)
        for note in notes:
            print(note, file=sys.stderr)
        if only_print:
            refuse(run, ["cheap"], ["settings"])
            print(run.yaml(), end="")
            return signals.DONE
        return _submit(run, overrides) if submit.to_cluster() else _run_here(run)
    except Refused as refusal:
        for diagnostic in refusal.diagnostics:
            print(f"error: {diagnostic}", file=sys.stderr)
        return signals.REFUSED
    except BadSetting as error:
        print(f"error: {error}", file=sys.stderr)
        return signals.REFUSED
    except RayWasLate as late:
        return start_again(overrides, late)


def dry_run() -> bool:
    """Return whether DRY_RUN is 1, true, yes or on. Raises BadSetting for a value that is neither true nor false."""
    value = os.environ.get("DRY_RUN", "").strip()
    try:
        return bool(value) and TypeAdapter(bool).validate_python(value)
    except ValidationError:
        raise BadSetting(f"DRY_RUN={value}: must be 1 (print the configuration) or 0 (run)") from None


def refuse(run: Run, costs: list[Cost], subjects: Sequence[Subject] = ("settings", "files", "machine")) -> None:
    """Run the checks of these costs and subjects; print warnings. Raises Refused with all errors."""
    from rpg.checks import preflight

    for diagnostic in preflight.refuse(run, costs, subjects):
        print(f"warning: {diagnostic}", file=sys.stderr)


def _submit(run: Run, overrides: list[str]) -> int:
    """Check only the settings and submit the job, which checks files and machine on the cluster."""
    refuse(run, ["cheap"], ["settings"])
    if diagnostics := list(secrets.in_variables("the job's environment", submit.runtime_env()["env_vars"])):
        raise Refused(diagnostics)
    return submit.submit(run.get("trainer.experiment_name"), overrides)


def _run_here(run: Run) -> int:
    if list(settings.values(run)):  # a run with wrong values cannot be frozen
        refuse(run, ["cheap"])
    run = freeze.frozen(run)
    refuse(run, ["cheap"])
    freeze.export(run)
    directory = Path(run.get("trainer.default_local_dir"))
    with rundir.held(directory):
        changed = fingerprint.refuse_another(directory, run)
        if not run.cluster:
            for path in cleanup.remove():
                print(f"note: removed {path}, left by a run that was killed", file=sys.stderr)
        with cleanup.temporary_files(), preloaded(run) as server:
            refuse(run, ["verl"])
            from rpg.launching.run import train

            return train(run, server, changed)


@contextlib.contextmanager
def preloaded(run: Run) -> Iterator["Preloaded | None"]:
    """Fork Ray's workers of this machine from one process that has imported rpg.preload.

    Yields None if nothing is preloaded.
    """
    if not run.get("rpg.preload.late") or run.cluster:
        yield None
        return
    from rpg.verl_plugin.cpu.preload import Preloaded

    server = Preloaded(run.get("rpg.preload.early"), run.get("rpg.preload.late"))
    signals.before_exit.callback(server.close)
    try:
        yield server
    finally:
        server.close()


def start_again(overrides: list[str], reason: Exception) -> int:
    """Restart this process with the same overrides, at most STARTS - 1 times; then return the exit code FAILED."""
    tried = int(os.environ.get(TRIED, "0")) + 1
    if tried == STARTS:
        print(f"error: Ray did not start in {STARTS} attempts: {reason}", file=sys.stderr)
        return signals.FAILED
    print(f"note: Ray did not start; attempt {tried + 1} of {STARTS}: {reason}", file=sys.stderr, flush=True)
    os.environ[TRIED] = str(tried)
    os.execv(sys.executable, [sys.executable, "-m", "rpg.launching", *overrides])
