"""What would fail minutes later, refused within seconds: files, model directory, loss, reward, devices.

Every refusal names the key, its value and the remedy. Nothing here starts Ray.
"""

import json
import os
import socket
from pathlib import Path

from omegaconf import DictConfig, ListConfig, OmegaConf

OURS = "pkg://rpg.rewards"


class Refused(ValueError):
    """The configuration cannot work; the message says which key, which value and what to do."""


def check_inputs(config: DictConfig) -> None:
    """Raise Refused for the first thing found that cannot work; takes a second, verl is not imported."""
    check_judge(config)
    check_devices(config)
    check_data(config)
    check_model(config)
    check_ports(config)


def check_loss(config: DictConfig) -> None:
    """Loss name and the combinations around it, estimator, and that the plugin did register with verl."""
    from rpg.verl_plugin import register
    from rpg.verl_plugin.config import validate

    try:
        register()
        validate(config)
    except ValueError as error:
        raise Refused(str(error)) from error
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    name = config.actor_rollout_ref.actor.policy_loss.loss_mode
    if name not in POLICY_LOSS_REGISTRY:
        raise Refused(
            f"actor_rollout_ref.actor.policy_loss.loss_mode={name} is not registered with verl; known: "
            + ", ".join(sorted(POLICY_LOSS_REGISTRY))
        )
    estimator = config.algorithm.adv_estimator
    if estimator not in ADV_ESTIMATOR_REGISTRY:
        raise Refused(
            f"algorithm.adv_estimator={estimator} is not registered with verl; known: "
            + ", ".join(sorted(map(str, ADV_ESTIMATOR_REGISTRY)))
        )


def _files(value: str | ListConfig) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def check_data(config: DictConfig) -> None:
    """The parquet files exist, can be read, hold rows, and name data sources that something scores."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rpg.rewards import KNOWN_DATA_SOURCES

    for key in ("train_files", "val_files"):
        for name in _files(config.data[key]):
            where = f"data.{key}={name}"
            if not Path(name).expanduser().is_file():
                raise Refused(
                    f"{where}: no such file; build it with `rpg data build` (scripts/prepare_data.sh builds all "
                    "that the 7b and 4b scripts read) or set TRAIN_FILE / TEST_FILE"
                )
            try:
                table = pq.read_table(Path(name).expanduser(), columns=["data_source"])
            except (pa.ArrowException, OSError, KeyError) as error:
                raise Refused(f"{where}: not a parquet file with a column data_source: {error}") from error
            if table.num_rows == 0:
                raise Refused(f"{where}: no rows")
            unknown = sorted(set(table["data_source"].unique().to_pylist()) - set(KNOWN_DATA_SOURCES), key=str)
            if unknown and _is_ours(config.reward.custom_reward_function.path):
                raise Refused(
                    f"{where}: data_source {', '.join(map(str, unknown))} is not scored by rpg.rewards; known: "
                    f"{', '.join(sorted(KNOWN_DATA_SOURCES))}. Set reward.custom_reward_function for others"
                )
    rows = sum(pq.read_metadata(Path(n).expanduser()).num_rows for n in _files(config.data.train_files))
    if rows < config.data.train_batch_size:
        raise Refused(
            f"data.train_batch_size={config.data.train_batch_size} is more than the {rows} rows of data.train_files; "
            "lower it or give more data"
        )


def check_judge(config: DictConfig) -> None:
    """Keywords for rpg.rewards are ones that it takes; a reward function of somebody else's is given no judge."""
    from rpg.rewards import JUDGES, OPTIONS, check_options

    function = config.reward.custom_reward_function
    options = dict(function.get("reward_kwargs") or {})
    key = "reward.custom_reward_function.reward_kwargs"
    if not _is_ours(function.path):
        if options.get("judge") in JUDGES:
            raise Refused(
                f"{key}.judge={options['judge']} is for {OURS}, and reward.custom_reward_function.path="
                f"{function.path} is another function; add '~{key}.judge' to the overrides"
            )
        return
    for name, value in options.items():
        if name not in OPTIONS:
            raise Refused(f"{key}.{name}={value}: rpg.rewards takes {', '.join(OPTIONS)}; remove it")
    try:
        check_options(**options)
    except ValueError as error:
        raise Refused(f"{key}.{error}. judge=release or judge=verified sets the judge") from error


def _is_ours(path: str | None) -> bool:
    """Whether the reward function's path is rpg.rewards, by either spelling that verl takes."""
    import rpg.rewards

    return path == OURS or (bool(path) and Path(str(path)).expanduser().resolve() == Path(rpg.rewards.__file__))


def check_model(config: DictConfig) -> None:
    """A local model directory is whole; a hub name is left to transformers unless the hub is switched off."""
    path = str(config.actor_rollout_ref.model.path)
    where = f"actor_rollout_ref.model.path={path}"
    directory = Path(path).expanduser()
    if not directory.exists():
        looks_local = path.startswith(("/", "./", "../", "~"))
        if looks_local or os.environ.get("HF_HUB_OFFLINE") == "1":
            raise Refused(f"{where}: no such directory; set MODEL_PATH to a Hugging Face model directory")
        return
    try:
        model_config = json.loads((directory / "config.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise Refused(
            f"{where}: config.json cannot be read ({error}); is this a Hugging Face model directory?"
        ) from error
    if "model_type" not in model_config:
        raise Refused(f"{where}: config.json has no model_type; is this a Hugging Face model directory?")
    if not any(directory.glob("tokenizer*")) and config.actor_rollout_ref.model.tokenizer_path is None:
        raise Refused(f"{where}: no tokenizer files; save the tokenizer there or set model.tokenizer_path")
    if not any(directory.glob("*.safetensors")) and not any(directory.glob("pytorch_model*.bin")):
        raise Refused(f"{where}: no weights (*.safetensors or pytorch_model*.bin)")


def check_devices(config: DictConfig) -> None:
    """As many GPUs as asked for, and a rollout parallelism that divides them. A cluster is asked by verl."""
    wanted = config.trainer.n_gpus_per_node
    parallel = config.actor_rollout_ref.rollout.tensor_model_parallel_size
    if (wanted * config.trainer.nnodes) % parallel:
        raise Refused(
            f"actor_rollout_ref.rollout.tensor_model_parallel_size={parallel} does not divide the "
            f"{wanted * config.trainer.nnodes} GPUs of trainer.n_gpus_per_node x trainer.nnodes"
        )
    if os.environ.get("RAY_ADDRESS") or OmegaConf.select(config, "ray_kwargs.ray_init.num_gpus") is not None:
        return
    import torch

    present = torch.cuda.device_count()
    if present < wanted:
        raise Refused(
            f"trainer.n_gpus_per_node={wanted}, but this machine has {present}; set trainer.n_gpus_per_node, "
            "set RAY_ADDRESS to a cluster that has them, or take profile=cpu"
        )


def check_ports(config: DictConfig) -> None:
    """Ports that the configuration fixes are free; all others are chosen free by Ray, torch and vLLM."""
    init = config.ray_kwargs.ray_init
    fixed = {"ray_kwargs.ray_init.dashboard_port": init.get("dashboard_port")}
    if OmegaConf.select(config, "actor_rollout_ref.rollout.prometheus.enable"):
        fixed["actor_rollout_ref.rollout.prometheus.port"] = config.actor_rollout_ref.rollout.prometheus.port
    for key, port in fixed.items():
        if port is None or os.environ.get("RAY_ADDRESS"):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise Refused(f"{key}={port}: {error.strerror}; set it to a free port or leave it out") from error
