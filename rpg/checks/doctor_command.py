"""`rpg doctor [NAME] [OVERRIDE...]`: describe this machine; with a run find what would be refused at its start."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from rpg.checks.preflight import CHECKS, findings, label, working
from rpg.config import flags, freeze
from rpg.config.compose import compose
from rpg.diagnostics import ABSENT, Diagnostic, Findings, Refused, fitted
from rpg.gpu_host import visible
from rpg.names import ADVANTAGES
from rpg.names import LOSSES as LOSS_NAMES
from rpg.plan import GB
from rpg.secrets import without_login
from rpg.verl_plugin.resolvers import cpu_dtype
from rpg.verl_plugin.version import installed

# runs in a fresh process, like a worker, where only the installed entry point registers the plugin; verl swallows what
# an entry point raises
PROBE = """
import json
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
print("\\nPROBE" + json.dumps([*POLICY_LOSS_REGISTRY, *map(str, ADV_ESTIMATOR_REGISTRY)]))
"""
PACKAGES = ("verl", "torch", "vllm", "ray", "transformers", "flash-attn", "schedulefree")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg doctor`."""
    run = "run to check, as for `rpg train` (default: describe this machine)"
    parser.add_argument("script", nargs="?", metavar="NAME", help=run)
    flags.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Print the machine or the failed checks and how many passed; return 1 if a check failed, else 0."""
    name, overrides = flags.chosen(args)
    if not (name or overrides):
        print(*fitted(machine(), 10), sep="\n")
    counts: Counter[str] = Counter()
    for check, found in checked(name, overrides):
        counts.update({diagnostic.level for diagnostic in found} or {"ok"})
        lines = (f"{'FAIL' if diagnostic.level == 'error' else 'warn'}  {check}: {diagnostic}" for diagnostic in found)
        print(*fitted(lines, 6), sep="\n", end="\n" * bool(found), flush=True)
    print(f"{counts['error']} failed, {counts['warning']} warned, {counts['ok']} passed")
    return 1 if counts["error"] else 0


def checked(name: str | None, overrides: list[str]) -> Iterator[tuple[str, list[Diagnostic]]]:
    """Yield name and findings of each check; without a run of the plugin alone."""
    with working("plugin: imports verl in a fresh process"):
        found = list(plugin(PROBE))
    yield "plugin", found
    if not (name or overrides):
        return
    try:
        with working("configuration"):
            config = freeze.freeze(compose(name, overrides)[0])
    except Refused as refused:
        yield "configuration", refused.diagnostics
        return
    notes = freeze.export(config)  # the environment of the run's processes
    yield "configuration", [Diagnostic("note", ABSENT, note.removeprefix("warning: "), "", "warning") for note in notes]
    for check in CHECKS:
        yield label(check), findings(check, config)


def machine() -> Iterator[str]:
    """Yield lines about this machine; `rpg plan NAME` tells whether a run fits its GPUs."""
    memory, here, gpus = psutil.virtual_memory(), shutil.disk_usage(Path.cwd()), visible()
    versions = [f"{name} {version}" for name in PACKAGES if (version := installed(name))]
    yield f"packages  Python {sys.version.split()[0]}, {', '.join(versions)}"
    yield f"CPU       {os.cpu_count()} cores, multiplies in {cpu_dtype()}"
    yield f"memory    {memory.available / GB:.0f} of {memory.total / GB:.0f} GB free"
    yield f"disk      {here.free / GB:.0f} GB free in {Path.cwd()}"
    for gpu in gpus:
        yield f"GPU {gpu.index}     {gpu.name}, {gpu.memory / GB:.0f} GB, driver {gpu.driver}"
    if not gpus:
        yield "GPU       none that nvidia-smi shows"
    yield f"Ray       RAY_ADDRESS: {without_login(os.environ.get('RAY_ADDRESS') or 'not set')}"


def plugin(probe: str) -> Findings:
    """Every loss and estimator is registered in a process that has imported only verl."""
    process = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    _, marker, answer = process.stdout.rpartition("\nPROBE")
    registered = json.loads(answer) if marker and not process.returncode else []
    if missing := [name for name in (*LOSS_NAMES, *ADVANTAGES) if name not in registered]:
        message = f"does not register {', '.join(missing)} ({process.stderr.strip()[-500:]})"
        yield Diagnostic("import verl", ABSENT, message, "run pip install -e . in the environment of verl")
