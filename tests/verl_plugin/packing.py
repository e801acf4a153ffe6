"""verl's own worker under a profile's settings, on sequences of many lengths, over gloo; no Ray, no vLLM.

The settings of the gpu profiles are taken as they are but for what only a GPU has; what is left is packing, gradient
checkpointing, micro-batches by tokens, the attention, the cross-entropy, and the dtypes.
"""

import os
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
RECIPE = ["model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=x"]
PROMPTS = [3, 7, 5, 2, 9, 4, 6, 8]  # tokens; with RESPONSES no two sequences are of one length
RESPONSES = [6, 11, 4, 9, 14, 3, 20, 8]
BUDGET = 48  # tokens of a micro-batch: more than one, of more than one sequence
FP32 = [
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}"
]


def model_directory(directory: Path, family: str = "qwen2") -> Path:
    """A random model of two layers with grouped heads, and the toy's tokenizer; qwen2 or qwen3."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from rpg.data.template import format_prompt
    from rpg.data.toy import toy_problems
    from rpg.toy import model as toy_model

    problems = list(toy_problems("train", seed=0, count=512))
    texts = [f"{format_prompt(problem.text)}\n{toy_model.worked_solution(problem)}" for problem in problems]
    tokenizer = toy_model.build_tokenizer(texts, toy_model.ToyModelSettings().vocab_size)
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=family == "qwen3",
        initializer_range=0.1, max_position_embeddings=256,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


class Worker:
    """The actor of a run with these overrides: log-probs, and one update."""

    def __init__(self, *overrides: str):
        rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        os.environ.update(VERL_PLATFORM="cpu", RANK=str(rank), WORLD_SIZE=str(world_size), RPG_HOME=str(ROOT))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # verl's worker reads them; the group is there
        from omegaconf import OmegaConf

        from rpg.launching.compose import compose_config
        from rpg.verl_plugin.worker import RPGActorRolloutRefWorker

        config = compose_config([*RECIPE, *overrides])
        config = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
        section = config.actor_rollout_ref
        directory = tempfile.gettempdir()
        section.rpg = {"reference": config.rpg.reference, "directory": directory, "nonfinite_limit": 3}
        section.model.external_lib = None  # it is about rollouts
        section.actor.use_dynamic_bsz = section.rollout.log_prob_use_dynamic_bsz = True
        section.actor.ppo_max_token_len_per_gpu = section.rollout.log_prob_max_token_len_per_gpu = BUDGET
        self.worker = RPGActorRolloutRefWorker(config=section, role="actor_rollout_ref")
        self.worker.role = "actor"  # verl knows no role of a training process without rollouts
        self.worker.init_model()
        self.rank, self.world_size = rank, world_size

    def data(self, old: list[torch.Tensor] | None = None, **extra):
        """This rank's rows; old: old log-probs of the responses, for an update."""
        from tensordict import TensorDict
        from verl.utils import tensordict_utils as tu

        generator = torch.Generator().manual_seed(1)
        rows = [
            torch.randint(5, 300, (prompt + response,), generator=generator)
            for prompt, response in zip(PROMPTS, RESPONSES, strict=True)
        ]
        mine = slice(self.rank, None, self.world_size)
        rows, prompts, responses = rows[mine], PROMPTS[mine], RESPONSES[mine]

        def nested(values):
            return torch.nested.as_nested_tensor(list(values), layout=torch.jagged)

        answers = [row[prompt:] for row, prompt in zip(rows, prompts, strict=True)]
        data = TensorDict(
            {
                "input_ids": nested(rows),
                "position_ids": nested(torch.arange(len(row)) for row in rows),
                "prompts": nested(row[:prompt] for row, prompt in zip(rows, prompts, strict=True)),
                "responses": nested(answers),
                "response_mask": nested(torch.ones_like(answer) for answer in answers),
                "loss_mask": nested(torch.ones_like(answer) for answer in answers),
                "advantages": nested(1.0 - 2.0 * (answer % 2) for answer in answers),
            },
            batch_size=len(rows),
        )
        if old is not None:
            data["old_log_probs"] = nested(old)
        lengths = [prompt + response for prompt, response in zip(prompts, responses, strict=True)]
        tu.assign_non_tensor(data, temperature=1.0, global_token_num=lengths, calculate_entropy=False, **extra)
        return data

    def log_probs(self) -> list[torch.Tensor]:
        """Of each of this rank's responses."""
        from verl.workers.utils.padding import response_from_nested

        output = self.worker.compute_log_prob(self.data(compute_loss=False))
        padded = response_from_nested(output["log_probs"], self.data()["response_mask"])
        return [row.float() for row in padded.unbind()]

    def update(self, old: list[torch.Tensor]) -> dict:
        """One optimizer step over all rows; verl's metrics."""
        rows = len(PROMPTS)
        data = self.data(
            old,
            global_batch_size=rows,
            mini_batch_size=rows,
            epochs=1,
            seed=1,
            dataloader_kwargs={"shuffle": False},
        )
        return dict(self.worker.update_actor(data)["metrics"])

    def weights(self) -> dict[str, torch.Tensor]:
        """Gathered; every rank must ask."""
        states = self.worker.actor.engine.module.state_dict()
        return {name: tensor.full_tensor().clone().float() for name, tensor in states.items()}
