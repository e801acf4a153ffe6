"""`rpg doctor [SCRIPT]`: what would fail in a run, before it does. One line a check, with its remedy.

Without a script: plugin and versions. With a launch script: also what its resolved configuration needs.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import metadata

from rpg.checks.check import ABSENT, MARKS, Diagnostic, Level, Run
from rpg.checks.preflight import ask
from rpg.checks.rules import RPG_ESTIMATORS
from rpg.launching import scripts, settle
from rpg.launching.compose import of_script
from rpg.objectives.spec import LOSS_NAMES

# Asked in a fresh process, as a worker is one: only what the installed entry point does counts there.
PROBE = """
import json
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
print("\\nPROBE" + json.dumps([*POLICY_LOSS_REGISTRY, *map(str, ADV_ESTIMATOR_REGISTRY)]))
"""
RAY_PROBE = f"""
import os, subprocess, sys
if not os.environ.get("RAY_ADDRESS"):
    os.environ.update({settle.LOOPBACK!r})
import ray
if os.environ.get("RAY_ADDRESS"):
    ray.init(log_to_driver=False)
else:
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
probe = {PROBE!r}
@ray.remote
def worker():
    return subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout
print(ray.get(worker.remote()))
ray.shutdown()
"""
PROBE_LIMIT = 240  # seconds; a first import of verl takes up to a minute on a small machine


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg doctor`."""
    parser.add_argument("script", nargs="?", help="a launch script, by name or path")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="as they would be given to the script")
    parser.add_argument("-v", "--verbose", action="store_true", help="also list the checks that passed or were not run")
    parser.add_argument("--json", action="store_true", help="every check as JSON")
    parser.add_argument("--ray", action="store_true", help="also ask a Ray worker (RAY_ADDRESS, or a Ray started here)")


def run(args: argparse.Namespace) -> int:
    """Print what is wrong and how many checks passed; 1 where one failed, else 0."""
    shown: list[dict[str, str]] = []
    counts: Counter[Level] = Counter()
    for level, line in lines(args.script, args.overrides, args.ray):
        counts[level] += 1
        shown.append({"level": level, "message": line})
        if not args.json and (args.verbose or level in ("error", "warning")):
            print(f"{MARKS[level]}  {line}", flush=True)
    if args.json:
        print(json.dumps({"checks": shown, "failed": counts["error"]}, indent=2))
    else:
        more = "" if args.verbose else " (-v lists them)"
        failed = f"{counts['error']} failed, " if counts["error"] else ""
        warned = f"{counts['warning']} warned, " if counts["warning"] else ""
        print(f"{failed}{warned}{counts['ok']} checks passed, {counts['skip']} not run{more}")
    return 1 if counts["error"] else 0


def lines(script: str | None, overrides: list[str], ray: bool) -> Iterator[tuple[Level, str]]:
    """A level and a line for each thing found: plugin, versions, then all that is asked of the script's run."""
    environment = [plugin("plugin here", PROBE)]
    if ray:
        environment.append(plugin("plugin in a Ray worker", RAY_PROBE))
    else:
        remedy = "--ray asks one (starts Ray where none runs)"
        environment.append(Diagnostic("plugin in a Ray worker", ABSENT, "not asked", remedy, "skip"))
    for diagnostic in environment:
        yield diagnostic.level, str(diagnostic)
    asked: Run | None = None
    if script is None:
        remedy = "rpg doctor recipe/rpg/7b/run_....sh checks a run"
        yield "skip", str(Diagnostic("run", ABSENT, "no script given", remedy))
    else:
        try:
            asked = of_script(scripts.find(script), overrides)
        except ValueError as error:
            yield "error", f"configuration: {error}"
        else:
            yield "ok", f"configuration: {script} resolves"
    for diagnostic in versions(asked is not None and asked.get("trainer.device") == "cpu"):
        yield diagnostic.level, str(diagnostic)
    if asked is None:
        return
    for check, diagnostics in ask(asked, ("cheap", "verl", "thorough")):
        for diagnostic in diagnostics:
            yield diagnostic.level, f"{check.name}: {diagnostic}"
        if not diagnostics:
            yield "ok", f"{check.name}: {check.rule}"


def plugin(name: str, probe: str) -> Diagnostic:
    """Whether every loss and estimator is registered in a process that has imported nothing but verl."""
    remedy = "pip install -e . again, in the environment that runs verl; its own message stands on stderr"
    try:
        done = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, timeout=PROBE_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return Diagnostic(name, ABSENT, f"no answer within {PROBE_LIMIT} s", "see whether Ray or the file system hangs")
    answer = done.stdout.rpartition("\nPROBE")[2].strip()
    if done.returncode or "\nPROBE" not in done.stdout:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["no message"]
        return Diagnostic(name, ABSENT, f"the process that imports verl ends with {done.returncode}: {last[0]}", remedy)
    registered = json.loads(answer)
    missing = [wanted for wanted in (*LOSS_NAMES, *RPG_ESTIMATORS) if wanted not in registered]
    if missing:
        return Diagnostic(name, ABSENT, f"not registered with verl: {', '.join(missing)}", remedy)
    return Diagnostic(
        name, ABSENT, f"{len(LOSS_NAMES)} losses and {len(RPG_ESTIMATORS)} estimators registered with verl", level="ok"
    )


def versions(cpu: bool) -> Iterator[Diagnostic]:
    """What verl requires fails when violated; what it pins for GPUs is only warned about, and not on a CPU."""
    from packaging.requirements import Requirement

    requirements = [Requirement(text) for text in metadata.requires("verl") or []]
    asked: tuple[tuple[str | None, Level], ...] = ((None, "error"), ("vllm", "skip" if cpu else "warning"))
    for extra, level in asked:
        wrong, right = [], []
        for requirement in requirements:
            named = f'extra == "{extra}"' in str(requirement.marker)
            if (extra is None) != (requirement.marker is None) or (extra and not named) or not requirement.specifier:
                continue
            try:
                version = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                wrong.append(f"{requirement.name} is missing, wanted {requirement.specifier}")
                continue
            fits = requirement.specifier.contains(version, prereleases=True)
            (right if fits else wrong).append(
                f"{requirement.name} {version}" + ("" if fits else f", wanted {requirement.specifier}")
            )
        name = f"versions, verl {metadata.version('verl')}" + (f"[{extra}]" if extra else "")
        if wrong and level == "skip":
            found = f"pins of the GPU stack; this CPU run uses {'; '.join(wrong)}"
            yield Diagnostic(name, ABSENT, found, level="skip")
        elif wrong:
            remedy = "bash scripts/setup_gpu.sh (requirement.txt, the pinned GPU environment)"
            yield Diagnostic(name, ABSENT, "; ".join(wrong), remedy, level)
        else:
            yield Diagnostic(name, ABSENT, ", ".join(right), level="ok")
