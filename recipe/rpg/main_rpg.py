"""Start an RPG run: compose, check, then verl's own trainer on Ray.

`python -m recipe.rpg.main_rpg OVERRIDE...`; the launch scripts call it through launch.sh. Exit codes:
0 done; 1 the run failed; 2 refused before Ray started; 124 a time limit passed; 130 Ctrl-C, 143 SIGTERM.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from recipe.rpg.compose import compose_config

REFUSED = 2


def resolve(config: DictConfig) -> DictConfig:
    """A copy of config without interpolations. Raises OmegaConfBaseException naming the key it fails at.

    verl leaves keys of parts that are switched off at ???, so those of a run are asked for one by one.
    """
    if OmegaConf.is_missing(config.trainer, "experiment_name"):
        raise MissingMandatoryValue("trainer.experiment_name: give the run a name")
    return OmegaConf.create(OmegaConf.to_container(config, resolve=True))  # type: ignore[return-value]


def set_environment(config: DictConfig) -> None:
    """Put rpg.env into this process and, through Ray's runtime_env, into every worker.

    A variable that is already set in the environment wins: it was set by hand.
    """
    for name, value in config.rpg.env.items():
        os.environ.setdefault(name, str(value))
    env_vars = {name: os.environ[name] for name in config.rpg.env}
    run_dir = Path(config.trainer.default_local_dir)
    env_vars["VERL_FILE_LOGGER_PATH"] = os.environ["VERL_FILE_LOGGER_PATH"] = str(run_dir / "metrics.jsonl")
    OmegaConf.update(config, "ray_kwargs.ray_init.runtime_env.env_vars", env_vars, force_add=True)


@contextlib.contextmanager
def preloaded(config: DictConfig) -> Iterator[None]:
    """While in this context, Ray's workers of this machine are forks of one process with rpg.preload imported."""
    if not config.rpg.preload.late or os.environ.get("RAY_ADDRESS"):
        yield
        return
    from rpg.preload import Preloaded

    run_dir = Path(config.trainer.default_local_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    server = Preloaded(config.rpg.preload.early, config.rpg.preload.late, run_dir / "preload.log")
    runtime_env = config.ray_kwargs.ray_init.runtime_env
    runtime_env.py_executable = runtime_env.env_vars["RPG_PRELOADED_PYTHON"] = str(server.executable)
    try:
        yield
    finally:
        server.close()


def main(argv: list[str] | None = None) -> int:
    """Run with Hydra overrides from argv; returns the exit code."""
    overrides = sys.argv[1:] if argv is None else argv
    try:
        config = resolve(compose_config(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        print(f"error in the configuration: {error}{cause}", file=sys.stderr)
        return REFUSED
    if os.environ.get("DRY_RUN", "0") not in ("", "0"):
        print(OmegaConf.to_yaml(config), end="")
        return 0

    config.trainer.default_local_dir = os.path.abspath(config.trainer.default_local_dir)
    set_environment(config)
    from recipe.rpg import preflight

    try:
        preflight.check_inputs(config)
        with preloaded(config):
            preflight.check_loss(config)
            from recipe.rpg.run import run

            return run(config)
    except preflight.Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return REFUSED


if __name__ == "__main__":
    sys.exit(main())
