"""RPG inside verl: policy losses, advantage estimators, worker, trainer.

Two folders are independent of the method: `patches/` fixes faults of verl, TransferQueue and vLLM, and `cpu/` supports
machines without a GPU. tests/verl_plugin/verl_contract.yaml lists the lines of verl that the plugin relies on.
"""

import importlib.util

from rpg.verl_plugin.cpu import on_cpu, vllm_plugin

__all__ = ["register", "vllm_plugin"]


def register() -> None:
    """Register every loss and estimator with verl in this process, and the CPU platform if it is selected.

    verl below 0.9 has no platforms and ignores VERL_PLATFORM. Safe to call more than once. Raises ValueError if another
    package has registered a name.
    """
    from verl.trainer.ppo import core_algos

    from rpg.verl_plugin.advantage import ESTIMATORS
    from rpg.verl_plugin.patches import job_queue
    from rpg.verl_plugin.policy_loss import POLICY_LOSSES

    if on_cpu() and importlib.util.find_spec("verl.plugin"):
        from rpg.verl_plugin.cpu import verl_platform

        verl_platform.register()
    job_queue.install()
    for registry, ours in (
        (core_algos.POLICY_LOSS_REGISTRY, POLICY_LOSSES),
        (core_algos.ADV_ESTIMATOR_REGISTRY, ESTIMATORS),
    ):
        for name, function in ours.items():
            if registry.setdefault(name, function) is not function:
                raise ValueError(f"{name!r} is already registered with verl by {registry[name]!r}")
