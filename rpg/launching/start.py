"""Start a run: compose, freeze, check, then verl's own trainer on Ray, here or as a job of a cluster."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rpg.checks import fingerprint, secrets, settings
from rpg.checks.check import Diagnostic, Refused, Run
from rpg.launching import RayWasLate, leftovers, rundir, settle, signals, submit
from rpg.launching.compose import configured
from rpg.launching.overrides import BadSetting, override

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

STARTS = 3
STARTED = "RPG_STARTS_TRIED"  # set for the next try


def main(argv: list[str]) -> int:
    """Run with Hydra overrides; returns the exit code (signals.py).

    launch.sh puts --script=NAME before them, which is rpg.script as it stands, not yet quoted for Hydra.
    """
    overrides, notes = [*argv], []
    try:
        if overrides and overrides[0].startswith("--script="):
            overrides[0] = override("rpg.script", overrides[0].removeprefix("--script="))
        only_print = dry_run()
        asked = configured(overrides, notes)
        print(*notes, sep="\n", end="\n" * bool(notes), file=sys.stderr)
        if only_print:
            check_settings(asked)
            print(asked.yaml(), end="")
            return signals.DONE
        return _submit(asked, overrides) if submit.wanted() else _run_here(asked)
    except (BadSetting, Refused) as refusal:
        for line in refusal.diagnostics if isinstance(refusal, Refused) else [refusal]:
            print(f"error: {line}", file=sys.stderr)
        return signals.REFUSED
    except RayWasLate as late:
        return start_again(overrides, late)


def _submit(asked: Run, overrides: list[str]) -> int:
    """Files and machine are the cluster's, so the job checks them."""
    check_settings(asked)
    if found := list(secrets.in_variables("the job's environment", submit.runtime_env()["env_vars"])):
        raise Refused(found)
    return submit.submit(asked.get("trainer.experiment_name"), overrides)


def check_settings(asked: Run) -> None:
    """Print warnings about the settings; raise Refused where one is wrong. Looks at no file and no device."""
    from rpg.checks import preflight

    warn(preflight.refuse(asked, ["cheap"], ["settings"]))


def _run_here(asked: Run) -> int:
    from rpg.checks import preflight

    if list(settings.values(asked)):
        preflight.refuse(asked, ["cheap"])  # which shows them, and all else that is wrong
    run = settle.settle(asked)
    warn(preflight.refuse(run, ["cheap"]))
    settle.export(run)
    directory = Path(run.get("trainer.default_local_dir"))
    with rundir.held(directory):
        changed = fingerprint.refuse_another(directory, run)
        if not run.cluster:
            for gone in leftovers.remove():
                print(f"note: removed {gone}", file=sys.stderr)
        with leftovers.temporary_files(), preloaded(run) as server:
            warn(preflight.refuse(run, ["verl"]))
            from rpg.launching.run import train

            return train(run, server, changed)


@contextlib.contextmanager
def preloaded(run: Run) -> Iterator["Preloaded | None"]:
    """While in this context, Ray's workers of this machine are forks of one process with the imports of rpg.preload.

    Yields None where nothing is preloaded.
    """
    if not run.get("rpg.preload.late") or run.cluster:
        yield None
        return
    from rpg.verl_plugin.cpu.preload import Preloaded

    log = Path(run.get("trainer.default_local_dir")) / "preload.log"
    server = Preloaded(run.get("rpg.preload.early"), run.get("rpg.preload.late"), log)
    signals.before_exit.callback(server.close, keep_log=False)
    try:
        yield server
    except Refused:  # of which nothing is to be seen afterwards
        server.close(keep_log=False)
        raise
    finally:
        server.close()


def dry_run() -> bool:
    """Whether DRY_RUN asks for the configuration alone. Raises BadSetting where it says neither yes nor no."""
    said = os.environ.get("DRY_RUN", "")
    if said.strip().lower() in ("1", "true", "yes", "on"):
        return True
    if said.strip().lower() in ("", "0", "false", "no", "off"):
        return False
    raise BadSetting(f"DRY_RUN={said}: 1, true, yes or on print the configuration; 0, false, no, off or nothing run")


def warn(diagnostics: list[Diagnostic]) -> None:
    """Print warnings, a line each."""
    for diagnostic in diagnostics:
        print(f"warning: {diagnostic}", file=sys.stderr)


def start_again(overrides: list[str], reason: Exception) -> int:
    """Become a fresh process with the same overrides, at most STARTS - 1 times; then the exit code of a failure."""
    tried = int(os.environ.get(STARTED, "0")) + 1
    if tried == STARTS:
        print(f"error: Ray did not start, {STARTS} times: {reason}", file=sys.stderr)
        return signals.FAILED
    print(f"note: Ray did not start, this machine is busy; start {tried + 1} of {STARTS}: {reason}", file=sys.stderr)
    sys.stderr.flush()
    os.environ[STARTED] = str(tried)
    os.execv(sys.executable, [sys.executable, "-m", "rpg.launching", *overrides])
