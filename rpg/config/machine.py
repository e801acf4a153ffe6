"""Checks of the machine: verl's version, devices, ports, directories, environment variables, W&B key."""

import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from rpg.config import installed
from rpg.config.check import check
from rpg.config.run_config import RunConfig, logs_to
from rpg.config.settings import ACTOR, MODEL, ROLLOUT
from rpg.data.diagnostics import ABSENT, Diagnostic, shown
from rpg.files.atomic import FINGERPRINT
from rpg.files.integrity import REFERENCE, STEP, TRACKER, UNCHECKED, ranks_that_saved, verify
from rpg.verl_plugin import version

DEVICES = ("trainer.n_gpus_per_node", "trainer.nnodes")
RAY = "ray_kwargs.ray_init"
RUN_DIR = "trainer.default_local_dir"

# Variables that the scripts and their programs read, with their valid values. An empty variable is rejected.
VARIABLES = {
    "GPU_MEMORY_GB": (re.compile(r"[1-9]\d{0,3}(\.\d{1,3})?"), "a number of GB, at least 1"),
    "NNODES": (re.compile(r"[1-9]\d{0,5}"), "a whole number, at least 1"),
    "MODEL_PATH": (re.compile(r".+"), "a model directory or a name on the hub"),
    "TRAIN_FILE": (re.compile(r".+"), "a parquet file, or [a,b]"),
    "TEST_FILE": (re.compile(r".+"), "a parquet file, or [a,b]"),
    "CKPTS_DIR": (re.compile(r".+"), "a directory"),
    "RPG_HOME": (re.compile(r".+"), "the directory of the repository"),
    "WANDB_MODE": (re.compile("online|offline|disabled|shared|dryrun|run"), "online, offline, shared or disabled"),
    "VLLM_CPU_KVCACHE_SPACE": (re.compile(r"\d{1,6}"), "a whole number of GiB"),
    "OMP_NUM_THREADS": (re.compile(r"[1-9]\d{0,5}"), "a whole number of threads, at least 1"),
    version.ALLOW: (re.compile("[01]"), f"1 to try a verl that is not {version.SYSTEM}, or 0"),
    "HF_HUB_OFFLINE": (re.compile(r"0|1|true|false|yes|no|on|off", re.IGNORECASE), "1 or 0"),
}


@check("environment variables", "set variables have a valid value")
def environment_variables(run: RunConfig) -> Iterator[Diagnostic]:
    """Runs before the configuration is composed from them; the run is not read."""
    for name, (pattern, wanted) in VARIABLES.items():
        value = os.environ.get(name)
        if value is not None and not pattern.fullmatch(value):
            yield Diagnostic(name, value, f"must be {wanted}", f"correct it, or unset {name}")


@check("verl's version", f"verl is {version.SYSTEM}, or {version.ALLOW}=1 allows another", subject="machine")
def verl_version(run: RunConfig) -> Iterator[Diagnostic]:
    """Runs before the configuration, which extends verl's, is composed; the run is not read.

    Another verl is rejected because its changes may act silently; scripts/check_verl.py compares it with what the
    plugin relies on.
    """
    verl = version.installed()
    if verl is None:
        yield Diagnostic("verl", ABSENT, "is not installed", f"bash scripts/setup.sh, or {version.INSTALL}")
    elif not version.has_system(verl):
        wrong = f"is not {version.SYSTEM}, the versions on which whole runs work; elsewhere docs/plain_verl.md"
        if version.allowed():
            yield Diagnostic("verl", verl, wrong, "python scripts/check_verl.py lists the differences", "warning")
        else:
            yield Diagnostic("verl", verl, wrong, f"{version.INSTALL}, or set {version.ALLOW}=1 to try it")


@check("devices", "the machine, or the Ray that the run starts, has the GPUs; several nodes need a cluster",
       subject="machine")  # fmt: skip
def devices(run: RunConfig) -> Iterator[Diagnostic]:
    """verl checks a cluster's devices after submission."""
    key, wanted = DEVICES[0], run.get(DEVICES[0])
    if run.cluster:
        yield Diagnostic(key, wanted, "the cluster at RAY_ADDRESS is asked by verl", level="skip")
        return
    if run.get(DEVICES[1]) > 1:
        wrong = "needs a cluster, but this run starts its own Ray"
        yield Diagnostic(DEVICES[1], run.get(DEVICES[1]), wrong, "set RAY_ADDRESS, or NNODES=1")
        return
    rollouts = 0
    if run.get("trainer.v1.trainer_mode") == "separate_async":
        rollouts = run.get(f"{ROLLOUT}.nnodes") * run.get(f"{ROLLOUT}.n_gpus_per_node")
    present, place = run.get(f"{RAY}.num_gpus"), f"{RAY}.num_gpus is"
    remedy = f"set {RAY}.num_gpus to {wanted + rollouts}"
    if present is None:
        import torch

        if installed.cpu_torch(run):  # a CPU build sees no GPU on any machine
            return
        present, place = torch.cuda.device_count(), "this machine has"
        remedy = f"set {key}, set RAY_ADDRESS to a cluster that has them, or use profile=cpu"
    if present < wanted + rollouts:
        more = f"and {rollouts} for the rollouts ({ROLLOUT}.n_gpus_per_node): " if rollouts else ""
        yield Diagnostic(key, wanted, f"{more}{place} {present}", remedy)


PROMETHEUS = "actor_rollout_ref.rollout.prometheus"


@check("ports", "ports set in the configuration are free", subject="machine")
def ports(run: RunConfig) -> Iterator[Diagnostic]:
    """Ray, torch and vLLM choose all other ports among the free ones."""
    fixed = {f"{RAY}.dashboard_port": run.get(f"{RAY}.dashboard_port")}
    if run.get(f"{PROMETHEUS}.enable"):
        fixed[f"{PROMETHEUS}.port"] = run.get(f"{PROMETHEUS}.port")
    for key, port in fixed.items():
        if port is None or run.cluster:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                yield Diagnostic(key, port, str(error.strerror), "set it to a free port or remove it")


def nearest(path: Path) -> Path:
    """Return the path or its nearest parent that exists, as far as this user may look."""
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))


@check("directories", "the output directories can be created", subject="machine")
def directories(run: RunConfig) -> Iterator[Diagnostic]:
    """Creates nothing."""
    for key in (RUN_DIR, "trainer.validation_data_dir"):
        if run.get(key) is None:
            continue
        path = Path(run.get(key)).expanduser().absolute()
        if os.path.expandvars(path) != str(path):
            wrong = f"Ray would read it as {os.path.expandvars(path)}"
            yield Diagnostic(key, run.get(key), wrong, "use a directory without $ in its name (CKPTS_DIR)")
            continue
        place = nearest(path)
        if not place.is_dir():
            yield Diagnostic(key, run.get(key), f"{place} is a file", "set CKPTS_DIR elsewhere")
        elif not os.access(place, os.W_OK | os.X_OK):
            yield Diagnostic(key, run.get(key), f"{place} cannot be written to", "set CKPTS_DIR elsewhere")


TEMPORARY = 200_000_000  # bytes; a run of two steps of the toy task on a CPU took 151 MB, kernels and logs included
LONGEST_SOCKET = 107  # bytes of a Unix socket's path
RAYS_SOCKET = "ray/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store"
VLLMS_SOCKET = "rpg-run-00000000/00000000-0000-0000-0000-000000000000"


@check("temporary files", "the directory for temporary files (RAY_TMPDIR, TMPDIR) can be written to and has space; its "
       "name is short enough for Ray's sockets", subject="machine")  # fmt: skip
def temporary_files(run: RunConfig) -> Iterator[Diagnostic]:
    """Ray keeps its logs and sockets there, and the run its own sockets. Skipped on a cluster, whose Ray is running."""
    if run.cluster:
        return
    variables = {name: value for name in ("RAY_TMPDIR", "TMPDIR") if (value := os.environ.get(name))}
    for name, path in (variables or {"TMPDIR": "/tmp"}).items():
        target = Path(path).absolute()
        place = nearest(target)
        remedy = f"set {name} to a directory on a larger disk"
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            yield Diagnostic(name, path, f"{place} cannot be written to", f"set {name} elsewhere, or unset it")
        elif (free := shutil.disk_usage(place).free) < TEMPORARY:
            wrong = f"has {free / 1e6:.0f} MB free, and Ray's logs and sockets need {TEMPORARY / 1e6:.0f}"
            yield Diagnostic(name, path, wrong, remedy)
        sockets = [("Ray", RAYS_SOCKET)] if name == next(iter(variables), "") else []
        for owner, socket_name in [*sockets, ("vLLM", VLLMS_SOCKET)] if name == "TMPDIR" else sockets:
            length, most = len(os.fsencode(target)), LONGEST_SOCKET - len(socket_name) - 1
            if length > most:
                wrong = f"has {length} bytes, and {owner}'s sockets below it need a path of at most {most}"
                yield Diagnostic(name, path, wrong, f"set {name} to a shorter path, such as /tmp")
                break


SHARDS = {"model": "model", "optimizer": "optim", "extra": "extra_state"}  # content -> kind in verl's file names
# settings with which verl cannot load the shards of a run that had others, whatever rpg.resume_changed says
OF_THE_WEIGHTS = (f"{ACTOR}.strategy", f"{ACTOR}.fsdp_config.fsdp_size", f"{MODEL}.lora_rank")
OF_THE_OPTIMIZER = (f"{ACTOR}.optim.optimizer", f"{ACTOR}.optim.optimizer_impl")
CONTENTS = "actor_rollout_ref.actor.checkpoint.load_contents"


@check("checkpoint", "the checkpoint to resume from is complete, and saved by as many ranks as the run has",
       subject="files")  # fmt: skip
def checkpoint(run: RunConfig) -> Iterator[Diagnostic]:
    """verl would fail when it loads it, or silently start from scratch. Reads all bytes of the checkpoint."""
    try:
        if run.resumes_by_choice:
            yield from _newest(run)
        elif run.get("trainer.resume_mode") == "resume_path" and run.get("trainer.resume_from_path") is not None:
            yield from _named(run, run.get("trainer.resume_from_path"))
    except OSError as error:
        yield Diagnostic(RUN_DIR, run.get(RUN_DIR), f"{error.filename}: {error.strerror}", "make it readable")


def _loadable(run: RunConfig, key: str, directory: Path) -> Iterator[Diagnostic]:
    """Compare a complete checkpoint with the files that this run's ranks will load.

    On nodes without a shared directory only this node's files are seen; without any, nothing is compared.
    """
    ranks, name = run.devices, directory.name
    kinds = [SHARDS[content] for content in map(str, run.get(CONTENTS) or SHARDS) if content in SHARDS]
    if run.get("rpg.reference.mode") != "old" and not run.get(f"{MODEL}.lora_rank"):
        kinds.append(REFERENCE)
    saved = {kind: ranks_that_saved(directory, kind) for kind in kinds}
    if not any(saved.values()):
        return
    export = (
        f"`rpg export {directory} --out DIR` makes a model directory from which a new run starts "
        f"(MODEL_PATH=DIR and another {RUN_DIR})"
    )
    others = set().union(*saved.values()) - {ranks}
    if not any(ranks in sizes for sizes in saved.values()):
        number = min(others)
        wrong = f"{name} was saved by {number} ranks, and verl loads it with {number} only; this run has {ranks}"
        remedy = f"set {DEVICES[0]} x {DEVICES[1]} = {number}, or {export}"
        yield Diagnostic(key, run.get(key), wrong, remedy)
        return
    yield from _of_another_model(run, directory, "optim" in kinds and not run.get("trainer.val_only"))
    for kind, sizes in saved.items():
        if ranks not in sizes and kind == REFERENCE:
            wrong = f"{name} has no reference of {ranks} ranks, and rpg.reference.mode={run.get('rpg.reference.mode')}"
            yield Diagnostic(key, run.get(key), wrong, f"resume with the mode with which it was saved, or {export}")
        elif ranks not in sizes:
            wrong = f"{name} has no actor/{kind}_world_size_{ranks}_rank_*.pt, which {CONTENTS} asks for"
            yield Diagnostic(key, run.get(key), wrong, f"take it out of {CONTENTS}, or {export}")


def _of_another_model(run: RunConfig, directory: Path, with_optimizer: bool) -> Iterator[Diagnostic]:
    """Compare the settings that decide the shards' content with those of the run that saved them, if it says them."""
    try:
        saved = json.loads((directory.parent / FINGERPRINT).read_bytes())
    except (OSError, ValueError):
        return
    for name in (*OF_THE_WEIGHTS, *(OF_THE_OPTIMIZER if with_optimizer else ())):
        if name in saved and saved[name] != run.get(name):
            wrong = f"{directory.name} was saved with {name}={shown(saved[name])}: its files do not fit this run's"
            yield Diagnostic(name, run.get(name), wrong, "resume with that, or start a new run under another name")


def _named(run: RunConfig, path: str) -> Iterator[Diagnostic]:
    """Checks trainer.resume_from_path; verl reads the step from the directory's name."""
    key = "trainer.resume_from_path"
    if not Path(path).is_dir():
        yield Diagnostic(key, path, "no such directory", "name a run's global_step_N directory")
    elif not STEP.fullmatch(path.rpartition("/")[2]):
        yield Diagnostic(key, path, "must end in global_step_N, without a trailing /")
    else:
        verdict = verify(Path(path))
        for wrong in verdict.wrong:
            remedy = "name another checkpoint, or use trainer.resume_mode=auto for the newest complete one of this run"
            yield Diagnostic(key, path, wrong, remedy)
        if verdict.complete:
            yield from _loadable(run, key, Path(path))
            if not verdict.has_manifest:
                yield Diagnostic(key, path, UNCHECKED, level="warning")


def _newest(run: RunConfig) -> Iterator[Diagnostic]:
    where, chosen = run.get(RUN_DIR), run.newest_checkpoint
    if chosen.newest is None:
        anew = "trainer.resume_mode=disable starts over; or set another trainer.default_local_dir"
        for verdict in chosen.passed_over:
            wrong = f"{verdict.directory.name} cannot be resumed from: {verdict.why}"
            yield Diagnostic(RUN_DIR, where, wrong, f"no other checkpoint is complete; {anew}")
        if chosen.tracker is not None and not chosen.passed_over:
            wrong = f"{TRACKER} says {chosen.tracker!r}, and there is no checkpoint; verl would start from scratch"
            yield Diagnostic(RUN_DIR, where, wrong, anew)
        return
    name = chosen.newest.directory.name
    for verdict in chosen.passed_over:
        wrong = f"{verdict.directory.name} is skipped: {verdict.why}"
        yield Diagnostic(RUN_DIR, where, wrong, f"the run resumes from {name}", "warning")
    judged = [verdict.directory.name for verdict in (*chosen.passed_over, chosen.newest)]
    if f"global_step_{chosen.tracker}" not in judged:
        state = "is missing" if chosen.tracker is None else f"says {chosen.tracker!r}, which does not exist"
        yield Diagnostic(RUN_DIR, where, f"{TRACKER} {state}", f"the run resumes from {name}", "warning")
    if unloadable := list(_loadable(run, RUN_DIR, chosen.newest.directory)):
        yield from unloadable
    elif chosen.newest.has_manifest:
        yield Diagnostic(RUN_DIR, where, f"{name} is complete by its manifest; the run resumes from it", level="ok")
    else:
        yield Diagnostic(RUN_DIR, where, f"{name} {UNCHECKED}", level="warning")


NO_WANDB_KEY = "no W&B key in WANDB_API_KEY or ~/.netrc: W&B logs offline"
WANDB_REMEDY = "`wandb login` before, or `wandb sync` after the run"


def has_wandb_key() -> bool:
    """Return whether W&B has a key for its server, in the environment or in ~/.netrc (`wandb login`)."""
    from requests.utils import get_netrc_auth

    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return bool(os.environ.get("WANDB_API_KEY") or get_netrc_auth(server))


@check("W&B", "a run that logs to W&B has a key or is offline", subject="machine")
def wandb(run: RunConfig) -> Iterator[Diagnostic]:
    """Without a key W&B would wait for input; the run logs offline instead."""
    is_on = logs_to(run.get("trainer.logger"), "wandb") and not os.environ.get("WANDB_MODE")
    if is_on and not has_wandb_key():
        yield Diagnostic("trainer.logger", ABSENT, NO_WANDB_KEY, WANDB_REMEDY, "warning")
