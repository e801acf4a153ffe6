"""The private parts of Ray, vLLM and TransferQueue that are built on; what they promise in writing is not listed."""

from rpg.verl_plugin.parts import Part

PARTS: dict[str, tuple[Part, ...]] = {
    "rpg/verl_plugin/job_queue.py": (
        Part("transfer_queue.interface", "init", "looks for a controller, and makes one where there is none", texts=(
            "if _init_from_existing(): return conf",
            "_TQ_CONTROLLER = TransferQueueController.options(",
            'name="TransferQueueController", namespace="transfer_queue"')),
        Part("transfer_queue.interface", "_init_from_existing", "takes one that was found before", signature="()",
             texts=("if _TQ_CONTROLLER is None:", "return True")),
        Part("transfer_queue.interface", "_TQ_CONTROLLER", "is where that is kept"),
        Part("transfer_queue.interface", "TransferQueueController.options", "makes it in the namespace that is given"),
        Part("transfer_queue.interface", "_maybe_create_tq_client", "looks for it by the same function",
             texts=("_init_from_existing()",)),
    ),
    "rpg/verl_plugin/rollout_classes.py": (
        Part("vllm.v1.engine.async_llm", "AsyncLLM.errored", "is true once it is"),
        Part("vllm.v1.engine.async_llm", "AsyncLLM.dead_error", "is what it then raises, an EngineDeadError"),
    ),
    "rpg/verl_plugin/cpu.py": (
        Part("vllm.plugins", "", "looks for the group of the entry point of vllm_plugin",
             texts=('DEFAULT_PLUGINS_GROUP = "vllm.general_plugins"',)),
        Part("vllm.model_executor.layers.utils", "dispatch_cpu_unquantized_gemm", "is replaced: weights stay",
             signature="(layer, remove_weight)", texts=("layer.cpu_linear = ",)),
        Part("vllm.model_executor.layers.linear", "UnquantizedLinearMethod.process_weights_after_loading",
             "looks it up when it is called, and calls it so", texts=(
                 "from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm",
                 "dispatch_cpu_unquantized_gemm(layer, remove_weight=True)")),
        Part("vllm.model_executor.layers.utils", "cpu_unquantized_gemm", "multiplies by what is put there",
             texts=("layer.cpu_linear(x, weight, bias)",)),
    ),
    "recipe/rpg/config/profile/cpu.yaml": (
        Part("vllm.v1.engine.core", "", "is imported once for all workers (rpg.preload.late)"),
        Part("vllm.v1.worker.cpu_worker", "", "is imported with it"),
        Part("vllm.model_executor.models.qwen2", "", "is imported with it"),
    ),
    "rpg/preload/ray_ids.py": (
        Part("ray.actor", "ActorClassID", "is replaced, so that an import draws no random number"),
        Part("ray.actor", "", "makes the id of a class in one place, and there", texts=("ActorClassID.from_random()",)),
        Part("ray._raylet", "ActorClassID", "is the id of a class", names=("from_random", "size")),
    ),
    "rpg/preload/server.py": (
        Part("ray._raylet", "UniqueID.from_random", "draws an id, to see whether two forks draw the same"),
        Part("ray._raylet", "UniqueID.binary", "gives its bytes"),
    ),
    "rpg/launching/settle.py": (
        Part("ray._private.runtime_env.constants", "RAY_JOB_CONFIG_JSON_ENV_VAR", "holds the environment of a job"),
        Part("ray._private.ray_constants", "", "reads the variable that switches clusters off", texts=(
            'ENABLE_RAY_CLUSTERS_ENV_VAR = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"',)),
        Part("ray._private.services", "get_node_ip_address", "takes the loopback then", texts=(
            "if not ray_constants.ENABLE_RAY_CLUSTER:", "return get_localhost_ip()")),
    ),
    "rpg/launching/run.py": (
        Part("ray._private.runtime_env.context", "RuntimeEnvContext.exec_worker",
             "starts a worker by py_executable, in a shell",
             texts=('executable = ["exec", self.py_executable]',)),
        Part("ray._private.node", "Node", "says that it was late, in words that we look for",
             texts=('"The current node timed out during startup.',)),
    ),
    "rpg/verl_plugin/task_runner.py": (
        Part("ray.actor", "_ActorClassMetadata", "keeps the class that was decorated", sets=("modified_class",)),
        Part("ray.actor", "ActorClass", "holds that", sets=("__ray_metadata__",)),
    ),
    "rpg/launching/lost_workers.py": (
        Part("ray._private.state", "actors", "tells the dead actors of a job", passed=("job_id", "actor_state_name")),
        Part("ray._private.state", "GlobalState", "says these things of an actor",
             texts=('"ActorClassName":', '"DeathCause":', '"Pid":')),
        Part("ray.core.generated.common_pb2", "ActorDiedErrorContext.Reason", "names why an actor died",
             names=("Name", "WORKER_DIED", "NODE_DIED")),
        Part("ray._private.worker", "_global_node", "is the node of this process"),
        Part("ray._private.node", "Node.get_logs_dir_path", "is where its workers write", signature="(self)"),
    ),
}  # fmt: skip
