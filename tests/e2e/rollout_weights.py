"""A worker extension for vLLM that saves its weights after every synchronisation."""

import os
from pathlib import Path

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

DIRECTORY = "RPG_TEST_ROLLOUT_WEIGHTS"


class Extension(vLLMColocateWorkerExtension):
    """verl's extension, a base of vLLM's worker; R/n.pt has replica R's parameters after n + 1 updates."""

    def update_weights_from_ipc(self, *args, **kwargs):
        super().update_weights_from_ipc(*args, **kwargs)
        directory = Path(os.environ[DIRECTORY]) / os.environ["VERL_REPLICA_RANK"]
        directory.mkdir(exist_ok=True)
        weights = {name: tensor.detach().clone() for name, tensor in self.model_runner.model.named_parameters()}
        torch.save(weights, directory / f"{len(list(directory.glob('*.pt')))}.pt")
