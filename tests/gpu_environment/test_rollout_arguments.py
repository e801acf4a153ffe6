"""vLLM's arguments for a launch script, made by verl's server and checked by vLLM's CUDA build without a device.

Runs only in the environment of requirement.txt: scripts/check_gpu_environment.sh.
"""

import asyncio
import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.studies import toy_model

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(metadata.version("vllm").endswith("+cpu"), reason="vLLM's CPU build is installed"),
]

SHAPES = {  # of config.json, as published
    "7b": {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
        "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    },
    "4b": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    },
}  # fmt: skip
RUNS = [
    ("7b", ["model=qwen2.5-math-7b", "context=2k"]),
    ("4b", ["model=qwen3-4b", "context=8k"]),
]


@pytest.fixture(scope="module", autouse=True)
def device_type():
    """Replace vLLM's CUDA platform, which needs libcuda, by its general one with a device type."""
    import torch
    from vllm.platforms import current_platform

    with pytest.MonkeyPatch.context() as patch:
        if not torch.cuda.is_available():
            patch.setattr(current_platform, "device_type", "cuda")
            patch.setattr(current_platform, "is_sleep_mode_available", lambda: True)  # as CUDA's answers
        yield


@pytest.fixture
def ray_job(monkeypatch):
    """Fake the Ray job id that verl's server requests."""
    import ray

    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_job_id=lambda: "01000000"))


def engine_arguments(directory: Path, size: str, overrides: list[str]):
    """Return vLLM's arguments for a run of this size, and the run's configuration."""
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.rollout.replica import RolloutMode
    from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer
    from vllm.engine.arg_utils import AsyncEngineArgs

    from rpg.config.compose import compose_config

    directory.mkdir()
    toy_model.build_tokenizer(["1 + 1 = 2\n"] * 50, 300).save_pretrained(directory)
    (directory / "config.json").write_text(json.dumps(SHAPES[size]))
    path = f"actor_rollout_ref.model.path={directory}"
    config = compose_config([*overrides, path, "trainer.experiment_name=t"])
    section = OmegaConf.create(OmegaConf.to_container(config.actor_rollout_ref, resolve=True))
    seen = []

    class Server(vLLMHttpServer):
        async def run_server(self, args):
            seen.append(args)

    server = Server(section.rollout, omega_conf_to_dataclass(section.model), RolloutMode.HYBRID, [], 0, 0, 8, 1, "")
    asyncio.run(server.launch_server())
    return AsyncEngineArgs.from_cli_args(seen[0]), section.rollout, config.data


@pytest.mark.parametrize(("size", "overrides"), RUNS, ids=[size for size, _ in RUNS])
def test_vllm_takes_the_settings_up_to_the_device(ray_job, tmp_path, monkeypatch, size, overrides):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    arguments, rollout, data = engine_arguments(tmp_path / size, size, overrides)
    assert arguments.tensor_parallel_size == 1
    assert arguments.gpu_memory_utilization == rollout.gpu_memory_utilization
    assert arguments.max_num_seqs == rollout.max_num_seqs
    assert arguments.enable_sleep_mode

    model = arguments.create_model_config()
    assert model.max_model_len >= data.max_prompt_length + data.max_response_length
    engine = arguments.create_engine_config()
    assert engine.scheduler_config.max_num_batched_tokens == rollout.max_num_batched_tokens
    assert engine.cache_config.gpu_memory_utilization == rollout.gpu_memory_utilization
    # without a device vLLM switches Triton off, and with it the second model runner: only what it would take is asked
    assert engine._is_default_v2_model_runner_model() == (size == "4b")
