"""`rpg doctor [SCRIPT]`: what would fail in a run, before it does. One line a check, with its remedy.

Without a script: plugin and versions. With a launch script: also what its resolved configuration needs.
"""

import argparse
import json
import netrc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from rpg.checks import estimate
from rpg.checks.budgets import Check, check_budgets
from rpg.data.check import check_file, check_overlap, prompt_length
from rpg.data.readers import DataError
from rpg.launching.script import resolved
from rpg.objectives.spec import LOSS_NAMES

ESTIMATORS = ("rpg", "rpg_batchmean")
# Asked in a fresh process, as a worker is one: only what the installed entry point does counts there.
PROBE = """
import json
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
print("\\nPROBE" + json.dumps([*POLICY_LOSS_REGISTRY, *map(str, ADV_ESTIMATOR_REGISTRY)]))
"""
RAY_PROBE = f"""
import os, ray, subprocess, sys
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
    parser.add_argument("script", nargs="?", type=Path, help="a launch script under recipe/rpg/")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="as they would be given to the script")
    parser.add_argument("--ray", action="store_true", help="also ask a Ray worker (RAY_ADDRESS, or a Ray started here)")


def run(args: argparse.Namespace) -> int:
    """Print every check; 1 where one failed, else 0."""
    failed = 0
    for check in checks(args.script, args.overrides, args.ray):
        print(check, flush=True)
        failed += check.state == "fail"
    print(f"{failed} checks failed" if failed else "nothing found that would stop a run")
    return 1 if failed else 0


def checks(script: Path | None, overrides: list[str], ray: bool) -> Iterator[Check]:
    """All checks, one after the other: plugin, versions, then what the script's configuration needs."""
    yield check_plugin("plugin here", PROBE)
    if ray:
        yield check_plugin("plugin in a Ray worker", RAY_PROBE)
    else:
        yield Check("plugin in a Ray worker", "skip", "not asked", "--ray asks one (starts Ray where none runs)")
    config: dict[str, Any] | None = None
    if script is not None:
        try:
            config = resolved(script, overrides)
        except ValueError as error:
            yield Check("configuration", "fail", str(error), "correct the key it names")
        else:
            yield Check("configuration", "ok", f"{script} resolves")
    cpu = config is not None and config["trainer"].get("device") == "cpu"
    yield from check_versions(cpu)
    if config is None:
        if script is None:
            yield Check("run", "skip", "no script given", "rpg doctor recipe/rpg/7b/run_....sh checks a run")
        return
    yield check_kl(config)
    yield from check_data(config)
    yield from check_model(config)
    yield from check_budgets(config, cpu)
    yield check_wandb(config)


def check_plugin(name: str, probe: str) -> Check:
    """Whether every loss and estimator is registered in a process that has imported nothing but verl."""
    remedy = "pip install -e . again, in the environment that runs verl; its own message stands on stderr"
    try:
        done = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, timeout=PROBE_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return Check(name, "fail", f"no answer within {PROBE_LIMIT} s", "see whether Ray or the file system hangs")
    answer = done.stdout.rpartition("\nPROBE")[2].strip()
    if done.returncode or "\nPROBE" not in done.stdout:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["no message"]
        return Check(name, "fail", f"the process that imports verl ends with {done.returncode}: {last[0]}", remedy)
    registered = json.loads(answer)
    missing = [wanted for wanted in (*LOSS_NAMES, *ESTIMATORS) if wanted not in registered]
    if missing:
        return Check(name, "fail", f"not registered with verl: {', '.join(missing)}", remedy)
    return Check(name, "ok", f"{len(LOSS_NAMES)} losses and {len(ESTIMATORS)} estimators registered with verl")


def check_versions(cpu: bool) -> Iterator[Check]:
    """What verl requires fails when violated; what it pins for GPUs is only warned about, and not on a CPU."""
    from packaging.requirements import Requirement

    requirements = [Requirement(text) for text in metadata.requires("verl") or []]
    for extra, state in ((None, "fail"), ("vllm", "skip" if cpu else "warn")):
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
        if wrong and state == "skip":
            yield Check(name, "skip", f"pins of the GPU stack; this CPU run uses {'; '.join(wrong)}")
        elif wrong:
            yield Check(name, state, "; ".join(wrong), "pip install -r requirement.txt (the pinned GPU environment)")
        else:
            yield Check(name, "ok", ", ".join(right))


def check_kl(config: dict[str, Any]) -> Check:
    """Loss name, its numbers, and that the KL is counted once."""
    from omegaconf import OmegaConf

    from rpg.verl_plugin.config import validate

    loss = config["actor_rollout_ref"]["actor"]["policy_loss"]["loss_mode"]
    try:
        validate(OmegaConf.create(config))
    except ValueError as error:
        return Check("loss and KL", "fail", str(error))
    return Check(
        "loss and KL", "ok", f"{loss}; the KL is counted once" if loss in LOSS_NAMES else f"{loss}, verl's own"
    )


def _paths(value: Any) -> list[Path]:
    return [Path(name).expanduser() for name in ([value] if isinstance(value, str) else value)]


def check_data(config: dict[str, Any]) -> Iterator[Check]:
    """Every parquet file is there and can be trained or evaluated on; no test problem among the training ones."""
    model, data = str(config["actor_rollout_ref"]["model"]["path"]), config["data"]
    length, found = None, []
    if Path(model).expanduser().is_dir():
        try:
            length = prompt_length(model)
        except DataError as error:
            yield Check("tokenizer", "fail", str(error))
    for path in dict.fromkeys(_paths(data["train_files"]) + _paths(data["val_files"])):
        if path.is_file():
            found.append(check_file(path, length, data["max_prompt_length"]))
        else:
            yield Check("data", "fail", f"{path}: no such file", "bash scripts/prepare_data.sh, or `rpg data build`")
    check_overlap(found)
    for file in found:
        errors = file.findings.count(errors=True)
        first = next((line.strip() for line in file.findings.lines()), "")
        if errors:
            yield Check("data", "fail", f"{file.path}: {errors} errors, first: {first}", f"rpg data check {file.path}")
        else:
            yield Check("data", "ok", file.summary())


def check_model(config: dict[str, Any]) -> Iterator[Check]:
    """The model is a directory with weights, or a hub name that will be downloaded."""
    path = str(config["actor_rollout_ref"]["model"]["path"])
    directory = Path(path).expanduser()
    if not directory.is_dir():
        if path.startswith(("/", ".", "~")) or os.environ.get("HF_HUB_OFFLINE") == "1":
            yield Check("model", "fail", f"{path}: no such directory", "set MODEL_PATH to a Hugging Face directory")
        else:
            yield Check("model", "warn", f"{path} is not here", "it will be downloaded; MODEL_PATH names a local one")
        return
    weights = [*directory.glob("*.safetensors"), *directory.glob("pytorch_model*.bin")]
    if not weights:
        yield Check("model", "fail", f"{path}: no weights (*.safetensors)", "copy the model again")
    else:
        yield Check(
            "model", "ok", f"{path}: {sum(file.stat().st_size for file in weights) / estimate.GB:.3g} GB of weights"
        )


def check_wandb(config: dict[str, Any]) -> Check:
    """Whether W&B is asked for, and then whether it will be online. Only looks whether a key is there."""
    if "wandb" not in config["trainer"]["logger"]:
        return Check("W&B", "skip", f"not among trainer.logger ({', '.join(config['trainer']['logger'])})")
    mode = os.environ.get("WANDB_MODE")
    if mode in ("offline", "disabled"):
        return Check("W&B", "ok", f"WANDB_MODE={mode}")
    if os.environ.get("WANDB_API_KEY") or _in_netrc():
        return Check("W&B", "ok", "a key is there")
    return Check("W&B", "warn", "no key: the run logs offline", "`wandb login` before, or `wandb sync` after the run")


def _in_netrc() -> bool:
    file = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    if not file.is_file():
        return False
    try:
        return netrc.netrc(file).authenticators("api.wandb.ai") is not None
    except netrc.NetrcParseError:
        return False  # wandb cannot read it either
