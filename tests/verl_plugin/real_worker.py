"""verl's worker with FSDP engines on gloo ranks, for composed settings, without Ray and vLLM; and its batches."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
TOY = ["model=toy", "dataset=toy", "trainer.experiment_name=x"]


def build_worker(
    *overrides: str,
    role: str = "actor",
    prepare: Callable[[Any], None] = lambda section: None,
    platform: str = "cpu",
) -> Any:
    """Build the worker. prepare: changes the settings first. platform: cpu, or nvidia (tests/gpu/test_engine.py)."""
    ranks = {"RANK": torch.distributed.get_rank(), "WORLD_SIZE": torch.distributed.get_world_size()}
    # verl's worker reads address and port, though the group is there
    os.environ.update(VERL_PLATFORM=platform, RPG_HOME=str(ROOT), MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    os.environ.update({name: str(value) for name, value in ranks.items()})
    from omegaconf import OmegaConf
    from verl.plugin.platform import PlatformRegistry, set_platform

    from rpg.verl_plugin import register

    register()
    set_platform(PlatformRegistry.get(platform)())  # verl may have been imported, and chosen one, for an earlier test
    from rpg.config.compose import compose_config
    from rpg.verl_plugin.worker import RPGActorRolloutRefWorker

    config = OmegaConf.create(OmegaConf.to_container(compose_config([*TOY, *overrides])[0], resolve=True))
    section = config.actor_rollout_ref
    section.rpg = config.rpg
    prepare(section)
    worker = RPGActorRolloutRefWorker(config=section, role="actor_rollout_ref")
    worker.role = role  # verl knows no role of a training process without rollouts
    worker.init_model()
    return worker


def toy_tokenizer() -> Any:
    from rpg.data.template import format_prompt
    from rpg.toy.sums import toy_problems
    from scripts import toy_model as model

    problems = toy_problems("train", seed=0, count=512)
    texts = [f"{format_prompt(problem.text)}\n{model.worked_solution(problem)}" for problem in problems]
    return model.build_tokenizer(texts, model.ToyModelSettings().vocab_size)


def model_directory(directory: Path, family: str, **sizes: Any) -> None:
    """Write a random qwen2 or qwen3 model, by default of two layers with grouped heads, and the toy tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = toy_tokenizer()
    torch.manual_seed(0)
    small = {
        "vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": family == "qwen3",
        "initializer_range": 0.1, "max_position_embeddings": 256,
    }  # fmt: skip
    AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **small | sizes)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def nested(values: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(list(values), layout=torch.jagged)


def batch(rows: Sequence[torch.Tensor], prompts: Sequence[int], fields: dict | None = None, **settings: Any) -> Any:
    """Return a batch. rows: token ids. prompts: prompt lengths. fields: further tensors by response token."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu

    responses = [row[prompt:] for row, prompt in zip(rows, prompts, strict=True)]
    data = TensorDict(
        {
            "input_ids": nested(rows),
            "position_ids": nested(torch.arange(len(row)) for row in rows),
            "prompts": nested(row[:prompt] for row, prompt in zip(rows, prompts, strict=True)),
            "responses": nested(responses),
            "response_mask": nested(torch.ones_like(response) for response in responses),
            "loss_mask": nested(torch.ones_like(response) for response in responses),
            "advantages": nested(1.0 - 2.0 * (response % 2) for response in responses),
            **{name: nested(values) for name, values in (fields or {}).items()},
        },
        batch_size=len(rows),
    )
    tu.assign_non_tensor(data, temperature=1.0, global_token_num=[len(row) for row in rows], **settings)
    return data


def of_update(mini_batch: int) -> dict[str, Any]:
    """Return the settings of verl's update; mini_batch: responses of all ranks."""
    return {
        "calculate_entropy": False,
        "global_batch_size": mini_batch,
        "mini_batch_size": mini_batch,
        "epochs": 1,
        "seed": 1,
        "dataloader_kwargs": {"shuffle": False},
    }


def response_log_probs(call: Callable, rows: Any) -> list[torch.Tensor]:
    """Return each response's log-probs, by a method of the worker."""
    from verl.workers.utils.padding import response_from_nested

    return list(response_from_nested(call(rows)["log_probs"], rows["response_mask"]).unbind())


def weights(engine: Any) -> dict[str, torch.Tensor]:
    """Return the gathered weights; every rank must call it."""
    return {name: tensor.full_tensor().clone() for name, tensor in engine.module.state_dict().items()}
