"""Start an RPG run: compose, check, then verl's own trainer on Ray, here or as a job of a cluster.

`python -m recipe.rpg OVERRIDE...`; the launch scripts call it through launch.sh. Exit codes: exit_codes.py.
"""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from recipe.rpg import leftovers, lock, names, signals, submit
from recipe.rpg.compose import compose_config
from recipe.rpg.exit_codes import DONE, FAILED, REFUSED
from rpg.checks import fingerprint, machine, secrets, verl_version
from rpg.checks.finding import ABSENT, Finding, Refused, Run
from rpg.launching import loopback
from rpg.launching.overrides import BadSetting, check_text, override
from rpg.verl_plugin import job_queue

# environment variables that the configuration takes as text
TEXTS = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "RPG_HOME")

if TYPE_CHECKING:
    from rpg.preload import Preloaded

STARTS = 3
STARTED = "RPG_STARTS_TRIED"  # set for the next try
# of ray.init: what describes the Ray to be started, and is refused where one runs already
OF_A_NEW_RAY = ("num_cpus", "num_gpus", "include_dashboard", "dashboard_host", "dashboard_port")


def check_sections(config: DictConfig) -> None:
    """Raise Refused where the sections that are read before the checks are no sections."""
    held = {name: OmegaConf.to_container(config, resolve=False).get(name, ABSENT) for name in ("trainer", "rpg")}  # type: ignore[union-attr]
    if found := [
        Finding(name, value, "must be a mapping", f"set its keys one by one, as {name}.KEY=VALUE")
        for name, value in held.items()
        if not isinstance(value, dict)
    ]:
        raise Refused(found)


def compare_with_name(config: DictConfig) -> None:
    """Warn where config is not what its launch script's name says, and give the run a name of its own.

    A name that the user gave by trainer.experiment_name stays.
    """
    script = config.rpg.script
    if not isinstance(script, str):
        return
    try:
        found = names.differences(names.parse(script), config)
    except names.UnknownName as error:
        print(f"note: nothing is known of a script of this name, so nothing was compared: {error}", file=sys.stderr)
        return
    if not found:
        return
    if config.trainer.experiment_name == script:
        config.trainer.experiment_name = names.custom_name(script, found)
    print(
        f"warning: this is not what run_{script}.sh says; the run is called {config.trainer.experiment_name}",
        *(f"  {key} = {actual} (the name says {said})" for key, (said, actual) in found.items()),
        sep="\n",
        file=sys.stderr,
    )


def resolve(config: DictConfig) -> DictConfig:
    """A copy of config without interpolations.

    Raises OmegaConfBaseException naming the key it fails at, BadSetting for text that would be one in the copy.
    verl leaves keys of parts that are switched off at ???, so those of a run are asked for one by one.
    """
    if config.trainer.experiment_name is None:
        raise MissingMandatoryValue("trainer.experiment_name: give the run a name")
    plain = OmegaConf.to_container(config, resolve=True)
    for key, text in _texts("", plain):
        check_text(key, text)
    return OmegaConf.create(plain)  # type: ignore[return-value]


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a container, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, (dict, list)):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(f"{key}.{name}" if key else str(name), inner)


def set_environment(config: DictConfig) -> None:
    """Put rpg.env into this process and, through Ray's runtime_env, into every worker.

    A variable that is already set in the environment wins: it was set by hand.
    """
    run_dir = Path(config.trainer.default_local_dir)
    variables = {**config.rpg.env, **wandb_environment(config)}
    for name, value in variables.items():
        os.environ.setdefault(name, str(value))
    env_vars = {name: os.environ[name] for name in variables}
    env_vars["VERL_FILE_LOGGER_PATH"] = os.environ["VERL_FILE_LOGGER_PATH"] = str(run_dir / "metrics.jsonl")
    env_vars[job_queue.OWN] = os.environ[job_queue.OWN] = "1"

    init = config.ray_kwargs.ray_init
    if os.environ.get("RAY_ADDRESS"):
        for key in OF_A_NEW_RAY:
            init.pop(key, None)
        # Ray refuses a variable that the job's own environment has too, equal or not
        job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
        for name in job.get("runtime_env", {}).get("env_vars", {}):
            env_vars.pop(name, None)
    else:  # a Ray of this run's own, also where somebody else's happens to run on this machine
        for name, value in loopback.VARIABLES.items():
            os.environ.setdefault(name, value)
        OmegaConf.update(config, "ray_kwargs.ray_init.address", "local", force_add=True)
    OmegaConf.update(config, "ray_kwargs.ray_init.runtime_env.env_vars", env_vars, force_add=True)


def wandb_environment(config: DictConfig) -> dict[str, str]:
    """W&B's files go to the run's directory; without a key it stays offline, where it would ask and wait."""
    if "wandb" not in config.trainer.logger:
        return {}
    variables = {"WANDB_DIR": str(config.trainer.default_local_dir)}
    if "WANDB_MODE" in os.environ or machine.missing_wandb_key() is None:
        return variables
    return {**variables, "WANDB_MODE": "offline"}  # pre-flight has said so


@contextlib.contextmanager
def preloaded(config: DictConfig) -> Iterator["Preloaded | None"]:
    """While in this context, Ray's workers of this machine are forks of one process with rpg.preload imported.

    Yields None where nothing is preloaded.
    """
    if not config.rpg.preload.late or os.environ.get("RAY_ADDRESS"):
        yield None
        return
    from rpg.preload import Preloaded

    log = Path(config.trainer.default_local_dir) / "preload.log"
    server = Preloaded(config.rpg.preload.early, config.rpg.preload.late, log)
    signals.before_exit.callback(server.close, keep_log=False)
    runtime_env = config.ray_kwargs.ray_init.runtime_env
    runtime_env.env_vars["RPG_PRELOADED_PYTHON"] = str(server.executable)
    runtime_env.py_executable = shlex.quote(str(server.executable))  # Ray makes it part of a shell's command
    try:
        yield server
    except Refused:  # of which nothing is to be seen afterwards
        server.close(keep_log=False)
        raise
    finally:
        server.close()


def dry_run() -> bool:
    """Whether DRY_RUN asks for the configuration alone. Raises BadSetting where it says neither yes nor no."""
    said = os.environ.get("DRY_RUN", "")
    if said.strip().lower() in ("1", "true", "yes", "on"):
        return True
    if said.strip().lower() in ("", "0", "false", "no", "off"):
        return False
    raise BadSetting(f"DRY_RUN={said}: 1, true, yes or on print the configuration; 0, false, no, off or nothing run")


def main(argv: list[str]) -> int:
    """Run with Hydra overrides from argv; returns the exit code.

    launch.sh puts --script=NAME before them, which is rpg.script as it stands, not yet quoted for Hydra.
    """
    overrides = [*argv]
    try:
        if overrides and overrides[0].startswith("--script="):
            overrides[0] = override("rpg.script", overrides[0].removeprefix("--script="))
        only_print = dry_run()
        for early in (machine.environment_variables, verl_version.verl_version):
            if found := [finding for finding in early(Run({})) if finding.level == "error"]:
                raise Refused(found)
        for variable in TEXTS:
            check_text(variable, os.environ.get(variable, ""))
        config = compose_config(overrides)
        check_sections(config)
        compare_with_name(config)
        config = resolve(config)
        asked = Run(OmegaConf.to_container(config))  # type: ignore[arg-type]
        if found := list(secrets.secrets(asked)):  # before anything else may show a value
            raise Refused(found)
    except (BadSetting, Refused) as refusal:
        return refused(refusal)
    except (HydraException, OmegaConfBaseException) as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        print(f"error in the configuration: {error}{cause}", file=sys.stderr)
        return REFUSED
    if only_print:
        print(OmegaConf.to_yaml(config), end="")
        return DONE
    from rpg.checks import preflight  # a dry run does without

    try:
        if submit.wanted():  # files and machine are the cluster's, and looked at there
            warn(preflight.refuse(asked, ["cheap"], ["settings"]))
            if found := list(secrets.in_variables("the job's environment", submit.runtime_env()["env_vars"])):
                raise Refused(found)
            return submit.submit(config.trainer.experiment_name, overrides)
        warn(preflight.refuse(asked, ["cheap"]))
        settle_directories(config)
        resume_from_complete(config, asked)
        set_environment(config)
        run_dir = Path(config.trainer.default_local_dir)
        with lock.held(run_dir):
            changed = fingerprint.refuse_another(run_dir, asked)
            if not os.environ.get("RAY_ADDRESS"):
                for gone in leftovers.remove():
                    print(f"note: removed {gone}", file=sys.stderr)
            with leftovers.temporary_files(), preloaded(config) as server:
                warn(preflight.refuse(asked, ["verl"]))
                from recipe.rpg.run import RayWasLate, run

                try:
                    return run(config, server, changed)
                except RayWasLate as late:
                    reason = late
    except (BadSetting, Refused) as refusal:
        return refused(refusal)
    return start_again(overrides, reason)


def settle_directories(config: DictConfig) -> None:
    """Make the run's directories absolute, ~ included. Raises BadSetting where the place we are in cannot be held."""
    run_dir = os.path.abspath(os.path.expanduser(config.trainer.default_local_dir))
    check_text("trainer.default_local_dir", run_dir)
    config.trainer.default_local_dir = run_dir
    if config.trainer.validation_data_dir is None:  # `rpg table` takes intervals and pass@k from the samples
        config.trainer.validation_data_dir = os.path.join(run_dir, "validation")


def resume_from_complete(config: DictConfig, asked: Run) -> None:
    """Name the checkpoint that the run goes on from where verl, after its tracker, would take another one or none.

    The checks have said which were passed over and why, and config.yaml then says which was taken.
    """
    if config.trainer.resume_mode != "auto" or asked.newest_checkpoint.verl_finds_it:
        return
    if found := asked.newest_checkpoint.found:
        config.trainer.resume_mode = "resume_path"
        config.trainer.resume_from_path = os.path.join(config.trainer.default_local_dir, found.directory.name)


def refused(refusal: Exception) -> int:
    """Print what is wrong, a line each; the exit code of a refusal."""
    for line in refusal.findings if isinstance(refusal, Refused) else [refusal]:
        print(f"error: {line}", file=sys.stderr)
    return REFUSED


def warn(findings: list[Finding]) -> None:
    """Print warnings, a line each."""
    for finding in findings:
        print(f"warning: {finding}", file=sys.stderr)


def start_again(overrides: list[str], reason: Exception) -> int:
    """Become a fresh process with the same overrides, at most STARTS - 1 times; then the exit code of a failure."""
    tried = int(os.environ.get(STARTED, "0")) + 1
    if tried == STARTS:
        print(f"error: Ray did not start, {STARTS} times: {reason}", file=sys.stderr)
        return FAILED
    print(f"note: Ray did not start, this machine is busy; start {tried + 1} of {STARTS}: {reason}", file=sys.stderr)
    sys.stderr.flush()
    os.environ[STARTED] = str(tried)
    os.execv(sys.executable, [sys.executable, "-m", "recipe.rpg", *overrides])
