"""RPG inside verl: policy losses, advantage estimators, worker, trainer.

Two folders stand apart from the method: `patches/` mends faults of verl, TransferQueue and vLLM, and `cpu/` holds what
exists only because there is no GPU. tests/verl_plugin/verl_contract.yaml lists the lines of verl that the plugin relies
on.
"""

import os
from types import ModuleType


def cpu_profile() -> ModuleType | None:
    """The package `rpg.verl_plugin.cpu` where VERL_PLATFORM=cpu asks for it; None, and nothing imported, on a GPU."""
    if os.environ.get("VERL_PLATFORM", "").strip().lower() != "cpu":
        return None
    from rpg.verl_plugin import cpu

    return cpu


def register() -> None:
    """Register every loss name and estimator with verl in this process, and the CPU platform where it is asked for.

    Safe to call more than once. Raises ValueError when another package has taken a name.
    """
    from rpg.verl_plugin import advantage, policy_loss
    from rpg.verl_plugin.patches import job_queue

    if cpu := cpu_profile():
        cpu.register()
    if job_queue.requested():
        job_queue.install()
    policy_loss.register()
    advantage.register()


def vllm_plugin() -> None:
    """vLLM calls this in each of its processes (entry point `vllm.general_plugins`)."""
    if cpu := cpu_profile():
        cpu.vllm_plugin()
