"""Checks by verl itself: its registries, the CPUs that its actors hold.

They import verl, which takes seconds, and therefore run last.
"""

from rpg.checks.loss import ESTIMATOR, LOSS_MODE
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import EXTERNAL_LIB, RAY
from rpg.diagnostics import Diagnostic, Findings, did_you_mean

UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
STANDALONE = 2  # CPUs of a GPU's bundle in verl's RolloutReplica.init_standalone


def registered(run: RunConfig) -> Findings:
    """Loss and estimator are registered by verl, the plugin, or the user's external_lib, which is imported here.

    verl would look them up after the first batch's rollouts.
    """
    import verl.experimental.agent_loop  # noqa: F401  # needs the packages of verl's extra of an engine, as a run
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    from rpg.verl_plugin import external, register

    for name in run.rpg.external_lib:
        try:
            external.load(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a user's file raises
            message = f"cannot be imported: {type(error).__name__}: {error}"
            yield Diagnostic(EXTERNAL_LIB, name, message, "correct it")
            return
    register()
    for key, registry in {LOSS_MODE: POLICY_LOSS_REGISTRY, ESTIMATOR: ADV_ESTIMATOR_REGISTRY}.items():
        if run[key] not in registry:
            known = sorted(map(str, registry))
            remedy = f"{did_you_mean(run[key], known)} known: {', '.join(known)}".strip()
            yield run.error(key, "is not registered with verl", remedy)


def cpus(run: RunConfig) -> Findings:
    """Ray has the CPUs that the run's actors hold; otherwise the start waits for them without end.

    TransferQueue's controller and each storage unit hold one, verl's trainer three a GPU, separate rollouts two a GPU.
    With 8 units and one GPU, 11 CPUs wait and 12 run; with 2 units, 5 wait and 6 run. Skipped on a cluster.
    """
    from ray._private.utils import get_num_cpus
    from verl.single_controller.ray import ResourcePoolManager

    gpus = run["trainer.n_gpus_per_node"]
    need = 1 + run[UNITS] + ResourcePoolManager.max_colocate_count * gpus + STANDALONE * run.rollout_devices
    present = run[f"{RAY}.num_cpus"] or int(get_num_cpus())
    if not run.cluster and present < need:
        message = f"Ray has {present} CPUs; {gpus + run.rollout_devices} GPUs and {run.shown(UNITS)} need {need}"
        yield run.error(f"{RAY}.num_cpus", message, f"set it to {need} (a logical number), or use a larger machine")
