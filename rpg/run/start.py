"""Start a run: from a script's name to a running trainer, here or as a cluster job."""

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rpg.checks import preflight
from rpg.config import freeze
from rpg.config.compose import compose, replaced_by, split
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Refused, UserError, fitted
from rpg.overrides import key_of, override
from rpg.registry import scripts
from rpg.run import cleanup, directory, signals, submit

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded


def start(name: str | None, overrides: list[str]) -> int:
    """Compose a run and begin it. Return the exit code (signals.py).

    name: of the launch script, or the path of one; None without. overrides: Hydra's, the script's own first.
    """
    try:
        run, notes = compose(name, overrides)
        tell(notes)
    except UserError as error:
        return refused(error)
    # the job has no script of the user's: it gets what follows from it, its name too, and this directory, not Ray's
    if name and scripts.name_of(name) not in scripts.paths():
        own, typed = split(name, overrides)
        replaced = replaced_by(typed, own)
        overrides = [*(text for text in own if text not in replaced), *typed]
    known = {key_of(text) for text in overrides}
    places = {"trainer.experiment_name": run.name}
    if "trainer.default_local_dir" in known:
        places["trainer.default_local_dir"] = str(run.directory.absolute())
    named = [scripts.name_of(name)] if name else []
    return begin(run, ["-m", "rpg.run", *named, *overrides, *(override(key, place) for key, place in places.items())])


def begin(composed: RunConfig, command: list[str]) -> int:
    """Check a composed run; then print, submit or train it. Return the exit code.

    command: the arguments of Python that begin the run as a job of a cluster.
    """
    try:
        tell(f"warning: {diagnostic}" for diagnostic in preflight.refuse(composed, preflight.SETTINGS))
        run = freeze.freeze(composed, contents=False)
        if dry_run():
            print(run.yaml(), end="")
            return signals.DONE
        if submit.to_cluster():  # where files and machine are looked at
            submit.submit(run, command)
        if done := directory.finished(run):
            tell([done])
            return signals.DONE
        tell(freeze.export(run))
        with imports(run) as server:  # beside the checks, of which some import verl
            tell(f"warning: {diagnostic}" for diagnostic in preflight.refuse(run, preflight.PLACE))
            run = freeze.freeze(composed)  # reads all bytes of a checkpoint to resume from
            tell(f"warning: {diagnostic}" for diagnostic in preflight.refuse(run, preflight.SLOW))
            with directory.held(run):
                from rpg.run.train import train

                if not run.cluster:
                    tell(f"note: removed {path}, left by a run that was killed" for path in cleanup.remove_weights())
                return train(run, server)
    except UserError as error:
        return refused(error)


def refused(error: UserError) -> int:
    """Show why a run is rejected; return the exit code."""
    tell(f"error: {reason}" for reason in (error.diagnostics if isinstance(error, Refused) else [error]))
    return signals.REFUSED


def tell(lines: Iterable[str]) -> None:
    """Print lines for the user, beside what the run prints."""
    for line in fitted(lines, 2, sys.stderr):
        print(line, file=sys.stderr, flush=True)


def dry_run() -> bool:
    """Return whether DRY_RUN asks for the configuration alone."""
    return os.environ.get("DRY_RUN", "").strip().lower() not in ("", "0", "false", "no", "off")


def imports(run: RunConfig) -> contextlib.AbstractContextManager["Preloaded | None"]:
    """Import rpg.preload in one process, from which Ray's workers of this machine are forked; None: nothing to."""
    if not run.rpg.preload["late"] or run.cluster:
        return contextlib.nullcontext()
    from rpg.verl_plugin.cpu.preload import Preloaded

    return contextlib.closing(Preloaded(run.rpg.preload["early"], run.rpg.preload["late"]))
