"""The check of the checkpoint to resume from."""

from pathlib import Path

from rpg.config.run_config import RunConfig
from rpg.diagnostics import Findings
from rpg.files import manifest
from rpg.files.atomic import CONFIG
from rpg.files.integrity import STEP, TRACKER, newest_complete

DIRECTORY, PATH = "trainer.default_local_dir", "trainer.resume_from_path"


def checkpoint(run: RunConfig) -> Findings:
    """The checkpoint to resume from is there, and all of its bytes are those that were saved.

    verl would load damaged weights, or silently start from scratch. Files of other ranks, of another adapter or
    optimizer, or of another number of storage units are left to the loaders, which end the start with their names.
    """
    if run.resumes_by_choice:
        yield from _newest(run)
    elif run["trainer.resume_mode"] == "resume_path" and run[PATH] is not None:
        directory = Path(run[PATH])
        if not directory.is_dir() or not STEP.fullmatch(directory.name):
            yield run.error(PATH, "no such checkpoint", "give the directory global_step_N of a run")
        elif fault := manifest.fault(directory):
            yield run.error(PATH, fault, "give another, or set trainer.resume_mode=auto for the newest complete one")


def _newest(run: RunConfig) -> Findings:
    chosen = run.choice or newest_complete(run.directory)
    if chosen.newest is None:
        anew = f"set another {DIRECTORY}, or move this one aside, to start over"
        reasons = [f"cannot resume from {passed.name}: {why}" for passed, why in chosen.passed_over.items()]
        if chosen.tracker is not None and not reasons:
            reasons = [f"{TRACKER} says {chosen.tracker!r}, and there is no checkpoint; verl would start from scratch"]
        # a kill in the first save leaves neither tracker nor manifest: nothing is lost that was saved
        saved = any((passed / manifest.NAME).exists() for passed in chosen.passed_over)
        torn = chosen.tracker is None and not saved and (run.directory / CONFIG).is_file()
        for reason in reasons:
            yield run.error(DIRECTORY, reason, "the run begins again" if torn else anew, "warning" if torn else "error")
        return
    for passed, why in chosen.passed_over.items():
        yield run.error(DIRECTORY, f"{passed.name}: {why}", f"resumes from {chosen.newest.name}", "warning")
