"""The check of the checkpoint to resume from."""

import json
from pathlib import Path

from rpg.config.fingerprint import recorded_in
from rpg.config.keys import KEYS, ROWS
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Findings, Refused, shown
from rpg.files.integrity import REFERENCE, STEP, TRACKER, UNCHECKED, ranks_that_saved, verify

SHARDS = {"model": "model", "optimizer": "optim", "extra": "extra_state"}  # content -> kind in verl's file names
CONTENTS = KEYS["load_contents"]
UNITS = Path("transfer_queue/simple_storage/storage_unit_info.json")  # TransferQueue's list of storage units


def checkpoint(run: RunConfig) -> Findings:
    """The checkpoint to resume from is complete, and saved by as many ranks as the run has.

    verl would fail when it loads it, or silently start from scratch. Reads all bytes of the checkpoint.
    """
    try:
        if run.resumes_by_choice:
            yield from _newest(run)
        elif run.settings.resume_mode == "resume_path" and run.settings.resume_path is not None:
            yield from _named(run, run.settings.resume_path)
    except OSError as error:
        yield run.settings.error("directory", f"{error.filename}: {error.strerror}", "make it readable")


def _loadable(run: RunConfig, named: str, directory: Path) -> Findings:
    """Compare a complete checkpoint with the files that this run's ranks will load.

    On nodes without a shared directory only this node's files are seen; without any, nothing is compared.
    """
    s, ranks, name = run.settings, run.settings.devices, directory.name
    kinds = [SHARDS[content] for content in map(str, s.load_contents or SHARDS) if content in SHARDS]
    if s.reference != "old" and not s.lora_rank:
        kinds.append(REFERENCE)
    saved = {kind: ranks_that_saved(directory, kind) for kind in kinds}
    if not any(saved.values()):
        return
    export = (
        f"`rpg export {directory} --out DIR` makes a model directory from which a new run starts "
        f"(MODEL_PATH=DIR and another {KEYS['directory']})"
    )
    others = set().union(*saved.values()) - {ranks}
    if not any(ranks in sizes for sizes in saved.values()):
        number = min(others)
        message = f"{name} was saved by {number} ranks, and verl loads it with {number} only; this run has {ranks}"
        resume = f"{KEYS['resume_mode']}=resume_path {KEYS['resume_path']}=DIR/{name}"
        rewrite = f"run `rpg export {directory} --ranks {ranks} --out DIR` and set {resume}"
        yield s.error(named, message, f"set {KEYS['gpus']} x {KEYS['nodes']} = {number}, or {rewrite}")
        return
    yield from _of_another_model(run, directory, "optim" in kinds and not s.val_only)
    for kind, sizes in saved.items():
        if ranks not in sizes and kind == REFERENCE:
            message = f"{name} has no reference of {ranks} ranks, and {s.shown('reference')}"
            yield s.error(named, message, f"resume with the mode with which it was saved, or {export}")
        elif ranks not in sizes:
            message = f"{name} has no actor/{kind}_world_size_{ranks}_rank_*.pt, which {CONTENTS} asks for"
            yield s.error(named, message, f"take it out of {CONTENTS}, or {export}")
    if s.schedule != "sync" and (directory / UNITS).is_file():
        units = len(json.loads((directory / UNITS).read_bytes()))
        if units != s.storage_units:
            message = f"{name} holds a queue of {units} units, and TransferQueue loads it with {units} only"
            yield s.error("storage_units", message, f"set it to {units}")


def _of_another_model(run: RunConfig, directory: Path, with_optimizer: bool) -> Findings:
    """Compare the settings that decide the shards' content with those of the run that saved them, if it says them."""
    try:
        saved = recorded_in(directory.parent)
    except Refused as refusal:
        yield from refusal.diagnostics
        return
    kinds = ("model", "optimizer") if with_optimizer else ("model",)
    for row in ROWS.values():  # whatever rpg.resume_changed says
        if row.shards in kinds and row.key in saved and saved[row.key] != run.get(row.key):
            message = (
                f"{directory.name} was saved with {row.key}={shown(saved[row.key])}: its files do not fit this run's"
            )
            yield run.settings.error(row.name, message, "resume with that, or start a new run under another name")


def _named(run: RunConfig, path: str) -> Findings:
    """Checks trainer.resume_from_path; verl reads the step from the directory's name."""
    s = run.settings
    if not Path(path).is_dir():
        yield s.error("resume_path", "no such directory", "name a run's global_step_N directory")
    elif not STEP.fullmatch(path.rpartition("/")[2]):
        yield s.error("resume_path", "must end in global_step_N, without a trailing /")
    else:
        verdict = verify(Path(path))
        for message in verdict.faults:
            remedy = (
                f"name another checkpoint, or use {KEYS['resume_mode']}=auto for the newest complete one of this run"
            )
            yield s.error("resume_path", message, remedy)
        if verdict.complete:
            yield from _loadable(run, "resume_path", Path(path))
            if not verdict.has_manifest:
                yield s.finding("resume_path", UNCHECKED, "", "warning")


def _newest(run: RunConfig) -> Findings:
    s, chosen = run.settings, run.newest_checkpoint
    if chosen.newest is None:
        anew = f"{KEYS['resume_mode']}=disable starts over; or set another {KEYS['directory']}"
        for verdict in chosen.passed_over:
            message = f"{verdict.directory.name} cannot be resumed from: {verdict.why}"
            yield s.error("directory", message, f"no other checkpoint is complete; {anew}")
        if chosen.tracker is not None and not chosen.passed_over:
            message = f"{TRACKER} says {chosen.tracker!r}, and there is no checkpoint; verl would start from scratch"
            yield s.error("directory", message, anew)
        return
    name = chosen.newest.directory.name
    for verdict in chosen.passed_over:
        message = f"{verdict.directory.name} is skipped: {verdict.why}"
        yield s.finding("directory", message, f"the run resumes from {name}", "warning")
    judged = [verdict.directory.name for verdict in (*chosen.passed_over, chosen.newest)]
    if f"global_step_{chosen.tracker}" not in judged:
        state = "is missing" if chosen.tracker is None else f"says {chosen.tracker!r}, which does not exist"
        yield s.finding("directory", f"{TRACKER} {state}", f"the run resumes from {name}", "warning")
    if unloadable := list(_loadable(run, "directory", chosen.newest.directory)):
        yield from unloadable
    elif chosen.newest.has_manifest:
        yield s.finding("directory", f"{name} is complete by its manifest; the run resumes from it", "", "ok")
    else:
        yield s.finding("directory", f"{name} {UNCHECKED}", "", "warning")
