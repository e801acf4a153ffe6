"""The check of the checkpoint to resume from."""

import json
from pathlib import Path

from rpg.config.record import recorded
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, FSDP, MODEL, OPTIM
from rpg.diagnostics import Findings, shown
from rpg.dotted import value_at
from rpg.files import manifest
from rpg.files.integrity import REFERENCE, STEP, TRACKER, ranks_that_saved

SHARDS = {"model": "model", "optimizer": "optim", "extra": "extra_state"}  # content -> kind in verl's file names
CONTENTS, DIRECTORY, PATH = f"{ACTOR}.checkpoint.load_contents", "trainer.default_local_dir", "trainer.resume_from_path"
UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
OF_OPTIMIZER = (f"{OPTIM}.optimizer", f"{OPTIM}.optimizer_impl")
UNITS_FILE = Path("transfer_queue/simple_storage/storage_unit_info.json")  # TransferQueue's list of storage units


def checkpoint(run: RunConfig) -> Findings:
    """The checkpoint to resume from is complete, and saved by as many ranks as the run has.

    verl would fail when it loads it, or silently start from scratch. Reads all bytes of the checkpoint.
    """
    if run.resumes_by_choice:
        yield from _newest(run)
    elif run["trainer.resume_mode"] == "resume_path" and run[PATH] is not None:
        directory = Path(run[PATH])
        if not directory.is_dir() or not STEP.fullmatch(directory.name):
            yield run.error(PATH, "no such directory global_step_N", "name one of a run")
            return
        if fault := manifest.fault(directory):
            yield run.error(PATH, fault, "name another, or trainer.resume_mode=auto for the newest complete one")
        else:
            yield from _loadable(run, PATH, directory)


def _newest(run: RunConfig) -> Findings:
    chosen = run.newest_checkpoint
    if chosen.newest is None:
        anew = f"set another {DIRECTORY}, or move this one aside, to start over"
        reasons = [f"{passed.name} cannot be resumed from: {why}" for passed, why in chosen.passed_over.items()]
        if chosen.tracker is not None and not reasons:
            reasons = [f"{TRACKER} says {chosen.tracker!r}, and there is no checkpoint; verl would start from scratch"]
        for reason in reasons:
            yield run.error(DIRECTORY, reason, anew)
        return
    for passed, why in chosen.passed_over.items():
        yield run.error(DIRECTORY, f"{passed.name}: {why}", f"resumes from {chosen.newest.name}", "warning")
    yield from _loadable(run, DIRECTORY, chosen.newest)


def _loadable(run: RunConfig, named: str, directory: Path) -> Findings:
    """Compare a complete checkpoint with the files that this run's ranks will load.

    On nodes without a shared directory only this node's files are seen; without any, nothing is compared.
    """
    ranks, name = run.devices, directory.name
    kinds = [SHARDS[content] for content in run[CONTENTS] or SHARDS if content in SHARDS]
    kinds += [REFERENCE] if run.rpg.reference.mode != "old" and not run[f"{MODEL}.lora_rank"] else []
    saved = {kind: sizes for kind in kinds if (sizes := ranks_that_saved(directory, kind))}
    if missing := [kind for kind in kinds if saved and ranks not in saved.get(kind, ())]:
        sizes = sorted(set().union(*saved.values()))
        message = f"{name} was saved by {sizes[0]} ranks; this run loads {', '.join(missing)} of {ranks}"
        remedy = f"use {sizes[0]} GPUs and the settings of then, or rewrite it by `rpg export --ranks {ranks}`"
        yield run.error(named, message, remedy)
    config, _ = recorded(directory.parent)
    for key in (f"{FSDP}.fsdp_size", f"{MODEL}.lora_rank", *(OF_OPTIMIZER if "optim" in kinds else ())):
        if config and (then := value_at(config, key)) != run[key]:  # whatever rpg.resume_changed says
            message = f"{name} was saved with {key}={shown(then)}: its files do not fit"
            yield run.error(key, message, "resume with that, or start a new run under another name")
    if run["trainer.v1.trainer_mode"] != "sync" and (directory / UNITS_FILE).is_file():
        units = len(json.loads((directory / UNITS_FILE).read_bytes()))
        if units != run[UNITS]:
            message = f"{name} holds a queue of {units} units, and loads with as many"
            yield run.error(UNITS, message, f"set it to {units}")
