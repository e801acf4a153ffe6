"""The checks of `rpg doctor`: plugin and versions of this environment, and those of a launch script's run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from rpg.checks.preflight import GPU_ONLY, ask, name_of, rule_of
from rpg.config import freeze
from rpg.config.compose import of_script
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Level, Refused
from rpg.names import ADVANTAGES
from rpg.names import LOSSES as LOSS_NAMES
from rpg.registry import recipe
from rpg.verl_plugin.version import installed

# runs in a fresh process, like a worker, where only the installed entry point registers the plugin
PROBE = """
import json
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
print("\\nPROBE" + json.dumps([*POLICY_LOSS_REGISTRY, *map(str, ADV_ESTIMATOR_REGISTRY)]))
"""
RAY_PROBE = f"""
import os, subprocess, sys
local = not os.environ.get("RAY_ADDRESS")
if local:
    os.environ.update({freeze.LOOPBACK!r})
import ray
ray.init(log_to_driver=False, **(dict(address="local", num_cpus=1, include_dashboard=False) if local else {{}}))
@ray.remote
def worker():
    return subprocess.run([sys.executable, "-c", {PROBE!r}], capture_output=True, text=True).stdout
print(ray.get(worker.remote()))
ray.shutdown()
"""
PROBE_LIMIT = 240  # seconds; a first import of verl takes up to a minute on a small machine


def check_all(script: str | None, overrides: list[str], ray: bool) -> Iterator[tuple[Level, str]]:
    """Yield level and message of each check: plugin and versions, then those of the script's run."""
    for name, probe in (("plugin here", PROBE), *([("plugin in a Ray worker", RAY_PROBE)] if ray else [])):
        diagnostic = plugin(name, probe)
        yield diagnostic.level, str(diagnostic)
    configuration: RunConfig | None = None
    if script is not None:
        try:
            configuration = freeze.freeze(of_script(recipe.find(script), overrides))
            yield "ok", f"configuration: {script} resolves"
            for note in freeze.export(configuration):  # the environment of the run's processes
                yield "warning", note.removeprefix("warning: ")
        except Refused as refusal:
            for diagnostic in refusal.diagnostics:
                yield "error", f"configuration: {diagnostic}"
        except ValueError as error:
            yield "error", f"configuration: {error}"
    for diagnostic in versions(configuration and configuration.settings.device):
        yield diagnostic.level, str(diagnostic)
    if configuration is None:
        return
    for check, diagnostics in ask(configuration, ("cheap", "verl", "thorough")):
        for diagnostic in diagnostics:
            yield diagnostic.level, f"{name_of(check)}: {diagnostic}"
        if not diagnostics and check in GPU_ONLY and configuration.settings.device == "cpu":
            yield "skip", f"{name_of(check)}: not needed on a CPU"
        elif not diagnostics:
            yield "ok", f"{name_of(check)}: {rule_of(check)}"


def plugin(name: str, probe: str) -> Diagnostic:
    """Check that every loss and estimator is registered in a process that has imported only verl."""
    command = [sys.executable, "-c", probe]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return Diagnostic(
            name, ABSENT, f"no answer within {PROBE_LIMIT} s", "check whether Ray or the file system hangs"
        )
    remedy = "run pip install -e . in the environment of verl"
    _, marker, answer = process.stdout.rpartition("\nPROBE")
    if process.returncode or not marker:
        message = (process.stderr.strip() or "no message").splitlines()[-1]
        ended = f"the process that imports verl ended with exit code {process.returncode}: {message}"
        return Diagnostic(name, ABSENT, ended, remedy)
    registered = json.loads(answer)
    if missing := [name for name in (*LOSS_NAMES, *ADVANTAGES) if name not in registered]:
        return Diagnostic(name, ABSENT, f"not registered with verl: {', '.join(missing)}", remedy)
    passed = f"{len(LOSS_NAMES)} losses and {len(ADVANTAGES)} estimators registered with verl"
    return Diagnostic(name, ABSENT, passed, level="ok")


def versions(device: str | None) -> Iterator[Diagnostic]:
    """Check versions: verl's requirements must hold; its GPU pins (verl[vllm]) only warn.

    device: the run's trainer.device; None without a script. They do not warn for a CPU, nor without a script beside
    vLLM's CPU build.
    """
    from packaging.requirements import Requirement

    on_cpu = device == "cpu" or (device is None and (installed("vllm") or "").endswith("+cpu"))
    requirements = [Requirement(text) for text in metadata.requires("verl") or []]
    levels: dict[str, Level] = {"None": "error", 'extra == "vllm"': "warning"}
    for marker, level in levels.items():
        met, unmet = [], []
        for requirement in requirements:
            if str(requirement.marker) != marker or not requirement.specifier:
                continue
            version = installed(requirement.name)
            if version and requirement.specifier.contains(version, prereleases=True):
                met.append(f"{requirement.name} {version}")
            else:
                unmet.append(f"{requirement.name} {version or 'is missing'}, wanted {requirement.specifier}")
        name = f"versions, verl {metadata.version('verl')}{'' if marker == 'None' else '[vllm]'}"
        if not unmet:
            yield Diagnostic(name, ABSENT, ", ".join(met), level="ok")
        elif level == "warning" and on_cpu:
            yield Diagnostic(name, ABSENT, f"GPU pins; this CPU environment has {'; '.join(unmet)}", level="skip")
        else:
            remedy = "bash scripts/setup_gpu.sh (requirement.txt, the pinned GPU environment)"
            yield Diagnostic(name, ABSENT, "; ".join(unmet), remedy, level)
