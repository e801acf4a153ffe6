"""`rpg doctor [SCRIPT]`: describe this machine; with a launch script also find what would fail in its run."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil

from rpg.checks.preflight import CHECKS, findings, name_of, rule_of
from rpg.config import flags, freeze
from rpg.config.compose import of_script
from rpg.config.resolvers import cpu_dtype
from rpg.diagnostics import ABSENT, MARKS, BadSetting, Diagnostic, Refused, fitted
from rpg.gpu_host import visible
from rpg.names import ADVANTAGES
from rpg.names import LOSSES as LOSS_NAMES
from rpg.registry import scripts

# runs in a fresh process, like a worker, where only the installed entry point registers the plugin; verl swallows what
# an entry point raises
PROBE = """
import json
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
print("\\nPROBE" + json.dumps([*POLICY_LOSS_REGISTRY, *map(str, ADV_ESTIMATOR_REGISTRY)]))
"""
PROBE_LIMIT = 240  # seconds; a first import of verl takes up to a minute on a small machine
PACKAGES = ("verl", "torch", "vllm", "ray", "transformers", "flash-attn", "schedulefree")
GB = 1e9
DEMO = 9  # GB of memory of `rpg demo`
SMALLEST, ROW = 24, 80  # GB of the smallest GPU of profile=one_gpu, and of those of the 7b and 4b scripts


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg doctor`."""
    parser.add_argument("script", nargs="?", help="a launch script, by name or path")
    flags.configure(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="also list the checks that passed or were not run")
    parser.add_argument("--list", action="store_true", help="list the checks of a run with their rules, and exit")


def run(args: argparse.Namespace) -> int:
    """Print the machine or the failed checks and how many passed; return 1 if a check failed, else 0."""
    if args.list:
        for (cost, subject), checks in CHECKS.items():
            print(f"{subject}, {cost}:")
            print(*fitted([f"  {name_of(check)}: {rule_of(check)}" for check in checks], 4), sep="\n")
        return 0
    overrides = flags.overrides(args)
    if args.script is None:
        if overrides:
            raise BadSetting(f"{overrides[0]}: is for a run; give its NAME")
        print(*fitted(machine(), 10), sep="\n")
    counts: Counter[str] = Counter()
    for name, found in checked(args.script, overrides):
        counts[found.level] += 1
        if args.verbose or found.level in ("error", "warning"):
            print(*fitted([f"{MARKS[found.level]}  {name}: {found}"], 6), sep="\n", flush=True)
    failed = f"{counts['error']} failed, " if counts["error"] else ""
    warned = f"{counts['warning']} warned, " if counts["warning"] else ""
    more = "" if args.verbose else " (-v lists them)"
    print(f"{failed}{warned}{counts['ok']} checks passed, {counts['skip']} not run{more}")
    return 1 if counts["error"] else 0


def checked(script: str | None, overrides: list[str]) -> Iterator[tuple[str, Diagnostic]]:
    """Yield name and findings of each check, and show on a terminal which one runs."""
    say("plugin: imports verl in a fresh process")
    yield "plugin", plugin(PROBE)
    if script is None:
        say("")
        return
    say("configuration")
    try:
        config = freeze.freeze(of_script(scripts.find(script), overrides))
        for note in freeze.export(config):  # the environment of the run's processes
            yield "configuration", Diagnostic("note", ABSENT, note.removeprefix("warning: "), level="warning")
    except ValueError as error:
        refused = error.diagnostics if isinstance(error, Refused) else [Diagnostic(script, ABSENT, str(error))]
        yield from (("configuration", found) for found in refused)
        return
    for check in (check for checks in CHECKS.values() for check in checks):
        say(name_of(check))
        for found in findings(check, config) or [Diagnostic("rule", ABSENT, rule_of(check), level="ok")]:
            say("")
            yield name_of(check), found
    say("")


def say(what: str) -> None:
    """Show on a terminal what is being checked, in place of what was."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what and f'checking: {what}'}", end="", file=sys.stderr, flush=True)


def machine() -> Iterator[str]:
    """Yield lines about this machine, and what fits on it."""
    versions = [f"{name} {version(name)}" for name in PACKAGES if version(name)]
    memory, here = psutil.virtual_memory(), shutil.disk_usage(Path.cwd())
    yield f"packages  Python {sys.version.split()[0]}, {', '.join(versions)}"
    yield f"CPU       {os.cpu_count()} cores, multiplies in {cpu_dtype()}"
    yield f"memory    {memory.available / GB:.0f} of {memory.total / GB:.0f} GB free"
    yield f"disk      {here.free / GB:.0f} GB free in {Path.cwd()}"
    gpus = visible()
    for gpu in gpus:
        yield f"GPU {gpu.index}     {gpu.name}, {gpu.memory / GB:.0f} GB, driver {gpu.driver}"
    running = sum(process.info["name"] == "raylet" for process in psutil.process_iter(["name"]))
    address = os.environ.get("RAY_ADDRESS")
    here_run = f"{running} nodes run here" if running else "none runs"
    yield f"Ray       {f'RAY_ADDRESS={address}' if address else here_run}"
    fits = [f"rpg demo ({DEMO} GB)"] if memory.available > DEMO * GB else []
    smallest = min((gpu.memory for gpu in gpus), default=0) / GB
    fits += ["profile=one_gpu"] if smallest >= SMALLEST else []
    fits += ["7b and 4b scripts"] if smallest >= ROW and len(gpus) >= 8 else []
    yield f"fits      {', '.join(fits) or 'no run of the recipe: too little memory'}; `rpg plan NAME` estimates a run"


def version(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def plugin(probe: str) -> Diagnostic:
    """Check that every loss and estimator is registered in a process that has imported only verl."""
    command, remedy = [sys.executable, "-c", probe], "run pip install -e . in the environment of verl"
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return Diagnostic("import verl", ABSENT, f"no answer within {PROBE_LIMIT} s", "does the file system hang?")
    _, marker, answer = process.stdout.rpartition("\nPROBE")
    if process.returncode or not marker:
        message = (process.stderr.strip() or "no message").splitlines()[-1]
        return Diagnostic("import verl", ABSENT, f"ended with exit code {process.returncode}: {message}", remedy)
    registered = json.loads(answer)
    if missing := [name for name in (*LOSS_NAMES, *ADVANTAGES) if name not in registered]:
        return Diagnostic("import verl", ABSENT, f"does not register {', '.join(missing)}", remedy)
    passed = f"registers {len(LOSS_NAMES)} losses and {len(ADVANTAGES)} estimators"
    return Diagnostic("import verl", ABSENT, passed, level="ok")
