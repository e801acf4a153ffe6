"""Start a run: from a script's name to a running trainer, here or as a cluster job."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from rpg.checks import preflight
from rpg.config import freeze
from rpg.config.compose import compose
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.diagnostics import BadSetting, Refused, fitted
from rpg.overrides import key_of, override
from rpg.run import cleanup, directory, signals, submit

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded


def start(name: str | None, overrides: list[str]) -> int:
    """Compose, freeze, check; then print, submit or train. Return the exit code (signals.py).

    name: of the launch script, or None. overrides: Hydra's, the script's own first.
    """
    try:
        only_show = dry_run()
        remote = only_show or submit.to_cluster()  # files and machine are the cluster's
        composed, notes = compose(name, overrides)
        tell(notes)
        run = freeze.freeze(composed, contents=not remote)
        if remote:
            tell(f"warning: {diagnostic}" for diagnostic in preflight.refuse(run, ["cheap"], ["settings"]))
            if not only_show:
                if KEYS["directory"] in map(key_of, overrides):  # of this directory, not of the cluster's Ray
                    overrides = [*overrides, override(KEYS["directory"], run.directory.absolute())]
                return submit.submit(run.settings.run_name, name, overrides)
            print(run.yaml(), end="")
            return signals.DONE
        if done := directory.finished(run):
            tell([done])
            return signals.DONE
        tell(freeze.export(run))
        with imports(run) as server:  # beside the checks, of which some import verl
            tell(f"warning: {diagnostic}" for diagnostic in preflight.refuse(run))
            with directory.held(run), cleanup.temporary_files():
                from rpg.run.train import train

                return train(run, server)
    except Refused as refusal:
        tell(f"error: {diagnostic}" for diagnostic in refusal.diagnostics)
    except BadSetting as error:
        tell([f"error: {error}"])
    except directory.NotWritten as error:
        tell([f"error: {error}; the run was not started"])
        return signals.FAILED
    return signals.REFUSED


def tell(lines: Iterator[str] | tuple[str, ...] | list[str]) -> None:
    """Print lines for the user, beside what the run prints."""
    for line in fitted(lines, 2, sys.stderr):
        print(line, file=sys.stderr, flush=True)


def dry_run() -> bool:
    """Return whether DRY_RUN is 1, true, yes or on. Raises BadSetting for a value that is neither true nor false."""
    value = os.environ.get("DRY_RUN", "").strip()
    try:
        return bool(value) and TypeAdapter(bool).validate_python(value)
    except ValidationError:
        raise BadSetting(f"DRY_RUN={value}: must be 1 (print the configuration) or 0 (run)") from None


@contextlib.contextmanager
def imports(run: RunConfig) -> Iterator["Preloaded | None"]:
    """Import rpg.preload in one process, from which Ray's workers of this machine are forked.

    Yields None if nothing is preloaded.
    """
    if not run.settings.preload_late or run.cluster:
        yield None
        return
    from rpg.verl_plugin.cpu.preload import Preloaded

    server = Preloaded(run.settings.preload_early, run.settings.preload_late)
    signals.before_exit.callback(server.close)
    try:
        yield server
    finally:
        server.close()
