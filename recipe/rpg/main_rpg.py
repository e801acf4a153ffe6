"""Start an RPG run: compose, check, then verl's own trainer on Ray, here or as a job of a cluster.

`python -m recipe.rpg.main_rpg OVERRIDE...`; the launch scripts call it through launch.sh. Exit codes: exit_codes.py.
"""

import contextlib
import json
import netrc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from recipe.rpg import names, submit
from recipe.rpg.compose import compose_config
from recipe.rpg.exit_codes import DONE, FAILED, REFUSED

if TYPE_CHECKING:
    from rpg.preload import Preloaded

STARTS = 3
STARTED = "RPG_STARTS_TRIED"  # set for the next try
# of ray.init: what describes the Ray to be started, and is refused where one runs already
OF_A_NEW_RAY = ("num_cpus", "num_gpus", "include_dashboard", "dashboard_host", "dashboard_port")


def compare_with_name(config: DictConfig) -> None:
    """Warn where config is not what its launch script's name says, and give the run a name of its own.

    A name that the user gave by trainer.experiment_name stays.
    """
    script = config.rpg.script
    if script is None:
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
    """A copy of config without interpolations. Raises OmegaConfBaseException naming the key it fails at.

    verl leaves keys of parts that are switched off at ???, so those of a run are asked for one by one.
    """
    if config.trainer.experiment_name is None:
        raise MissingMandatoryValue("trainer.experiment_name: give the run a name")
    return OmegaConf.create(OmegaConf.to_container(config, resolve=True))  # type: ignore[return-value]


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

    init = config.ray_kwargs.ray_init
    if os.environ.get("RAY_ADDRESS"):
        for key in OF_A_NEW_RAY:
            init.pop(key, None)
        # Ray refuses a variable that the job's own environment has too, equal or not
        job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
        for name in job.get("runtime_env", {}).get("env_vars", {}):
            env_vars.pop(name, None)
    else:  # a Ray of this run's own, also where somebody else's happens to run on this machine
        OmegaConf.update(config, "ray_kwargs.ray_init.address", "local", force_add=True)
    OmegaConf.update(config, "ray_kwargs.ray_init.runtime_env.env_vars", env_vars, force_add=True)


def wandb_environment(config: DictConfig) -> dict[str, str]:
    """W&B's files go to the run's directory; without a key it stays offline, where it would ask and wait."""
    if "wandb" not in config.trainer.logger:
        return {}
    variables = {"WANDB_DIR": str(config.trainer.default_local_dir)}
    if "WANDB_MODE" in os.environ or _has_wandb_key():
        return variables
    print(
        f"note: no W&B key (WANDB_API_KEY or `wandb login`): W&B logs offline into {variables['WANDB_DIR']}/wandb; "
        "`wandb sync` uploads it later",
        file=sys.stderr,
    )
    return {**variables, "WANDB_MODE": "offline"}


def _has_wandb_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc().authenticators(host) is not None
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def preloaded(config: DictConfig) -> Iterator["Preloaded | None"]:
    """While in this context, Ray's workers of this machine are forks of one process with rpg.preload imported.

    Yields None where nothing is preloaded.
    """
    if not config.rpg.preload.late or os.environ.get("RAY_ADDRESS"):
        yield None
        return
    from rpg.preload import Preloaded

    run_dir = Path(config.trainer.default_local_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    server = Preloaded(config.rpg.preload.early, config.rpg.preload.late, run_dir / "preload.log")
    runtime_env = config.ray_kwargs.ray_init.runtime_env
    runtime_env.py_executable = runtime_env.env_vars["RPG_PRELOADED_PYTHON"] = str(server.executable)
    try:
        yield server
    finally:
        server.close()


def main(argv: list[str] | None = None) -> int:
    """Run with Hydra overrides from argv; returns the exit code."""
    overrides = sys.argv[1:] if argv is None else argv
    try:
        config = compose_config(overrides)
        compare_with_name(config)
        config = resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        print(f"error in the configuration: {error}{cause}", file=sys.stderr)
        return REFUSED
    if os.environ.get("DRY_RUN", "0") not in ("", "0"):
        print(OmegaConf.to_yaml(config), end="")
        return DONE
    if submit.wanted():
        return submit.submit(config.trainer.experiment_name, overrides)

    config.trainer.default_local_dir = os.path.abspath(config.trainer.default_local_dir)
    if config.trainer.validation_data_dir is None:  # `rpg table` takes intervals and pass@k from the samples
        config.trainer.validation_data_dir = os.path.join(config.trainer.default_local_dir, "validation")
    set_environment(config)
    from recipe.rpg import preflight

    try:
        preflight.check_inputs(config)
        with preloaded(config) as server:
            preflight.check_loss(config)
            from recipe.rpg.run import RayWasLate, run

            try:
                return run(config, server)
            except RayWasLate as late:
                reason = late
    except preflight.Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return REFUSED
    return start_again(overrides, reason)


def start_again(overrides: list[str], reason: Exception) -> int:
    """Become a fresh process with the same overrides, at most STARTS - 1 times; then the exit code of a failure."""
    tried = int(os.environ.get(STARTED, "0")) + 1
    if tried == STARTS:
        print(f"error: Ray did not start, {STARTS} times: {reason}", file=sys.stderr)
        return FAILED
    print(f"note: Ray did not start, this machine is busy; start {tried + 1} of {STARTS}: {reason}", file=sys.stderr)
    sys.stderr.flush()
    os.environ[STARTED] = str(tried)
    os.execv(sys.executable, [sys.executable, "-m", "recipe.rpg.main_rpg", *overrides])


if __name__ == "__main__":
    sys.exit(main())
