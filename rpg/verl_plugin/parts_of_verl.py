"""Every part of verl 0.9.1 that is built on, under the file of ours that needs it.

Over 300 lines, because it is a list, and one that is read as a whole when verl changes. What a run needs the part
for decides whether it may be tried without (rpg/checks/verl_version.py); tests/verl_plugin/test_parts.py compares the
list with this verl, and our code with the list.
"""

from rpg.verl_plugin.parts import Part

ALGOS = "verl.trainer.ppo.core_algos"
TRAINER = "verl.trainer.ppo.v1.trainer_base"
WORKERS = "verl.workers.engine_workers"
FSDP = "verl.workers.engine.fsdp.transformer_impl"
VLLM_SERVER = "verl.workers.rollout.vllm_rollout.vllm_async_server"
VLLM_ACTOR = "verl.workers.rollout.vllm_rollout.vllm_rollout"
VLLM_WORKER = "verl.workers.rollout.vllm_rollout.utils"
CHECKPOINTS = "verl.utils.checkpoint.fsdp_checkpoint_manager"
CARRIERS = "verl.checkpoint_engine.base"
REWARDS = "verl.experimental.reward_loop.reward_loop"

PARTS: dict[str, tuple[Part, ...]] = {
    "rpg/verl_plugin/autoload.py": (
        Part("verl", "", "finds the plugin, in every process that imports verl", texts=(
            '_entry_points(group="verl.plugins")',
            "except Exception as _e: logging.getLogger(__name__).debug(",  # which is why autoload.py speaks itself
            'os.getenv("VERL_USE_EXTERNAL_MODULES", "")',  # for a job of a cluster (submit.py)
        )),
    ),
    "rpg/verl_plugin/policy_loss.py": (
        Part(ALGOS, "POLICY_LOSS_REGISTRY", "holds our losses by name", names=("vanilla",)),
        Part(ALGOS, "register_policy_loss", "puts them there", passed=("name",)),
        Part(ALGOS, "get_policy_loss_fn", "finds them there", signature="(name)",
             texts=("return POLICY_LOSS_REGISTRY[loss_name]",)),
        Part(ALGOS, "agg_loss", "sums a loss over the global batch, by the names of global_batch_info", passed=(
            "loss_mat", "loss_mask", "loss_agg_mode", "dp_size", "batch_num_tokens", "global_batch_size",
            "loss_scale_factor"),
            texts=('"token-mean"', '"token-sum"', '"seq-mean-token-sum"', '"seq-mean-token-sum-norm"',
                   '"seq-mean-token-mean"', "if dp_size > 1:")),
        Part("verl.workers.utils.losses", "ppo_loss", "calls our losses, with these arguments and no others", texts=(
            "policy_loss_fn(old_log_prob=old_log_prob, log_prob=log_prob, advantages=advantages, "
            "response_mask=response_mask, loss_agg_mode=loss_agg_mode, config=config, "
            "rollout_is_weights=rollout_is_weights,)",
            'config.global_batch_info["dp_size"] = data["dp_size"]',
            'config.global_batch_info["loss_scale_factor"] = config.loss_scale_factor',
            "Metric.from_dict(pg_metrics, aggregation=AggregationType.MEAN)",
        )),
        Part("verl.workers.config", "ActorConfig", "is the config that a policy loss is given", names=(
            "get", "clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "policy_loss",
            "global_batch_info", "loss_agg_mode")),
    ),
    "rpg/verl_plugin/verl_losses.py": (
        Part(ALGOS, "get_policy_loss_fn", "finds verl's own losses for the laboratory", signature="(name)"),
        Part(ALGOS, "POLICY_LOSS_REGISTRY", "holds those of the laboratory", names=(
            "vanilla", "cispo", "gspo", "geo_mean", "sapo", "dppo_tv", "dppo_kl", "gpg")),
        Part(ALGOS, "compute_policy_loss_vanilla", "is one of them; the others take the same", passed=(
            "old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode", "config",
            "rollout_is_weights")),
        Part(ALGOS, "kl_penalty", "is verl's KL loss of a token", passed=("logprob", "ref_logprob", "kl_penalty")),
        Part(ALGOS, "kl_penalty_forward", "is where GRPO's k3 is", texts=('kl_penalty in ("low_var_kl", "k3")',)),
        Part("verl.workers.config", "ActorConfig", "is the config that they are given", passed=(
            "strategy", "rollout_n", "ppo_micro_batch_size_per_gpu", "clip_ratio_low", "clip_ratio_high",
            "clip_ratio_c")),
    ),
    "rpg/verl_plugin/config.py": (
        Part("verl.workers.config", "PolicyLossConfig", "is what our settings of the loss are added to",
             names=("get", "loss_mode"), lacks=("kl_coef", "clip_scope", "clip_branch", "z_old")),
    ),
    "rpg/verl_plugin/advantage.py": (
        Part(ALGOS, "ADV_ESTIMATOR_REGISTRY", "holds our estimators by name", names=("grpo",)),
        Part(ALGOS, "register_adv_est", "puts them there", passed=("name_or_enum",)),
        Part("verl.trainer.ppo.ray_trainer", "compute_advantage", "calls our estimators", texts=(
            'adv_kwargs = {"token_level_rewards": data.batch["token_level_rewards"], '
            '"response_mask": data.batch["response_mask"],',
            'adv_kwargs["index"] = data.non_tensor_batch["uid"]',
            "advantages, returns = adv_estimator_fn(**adv_kwargs)",
        )),
    ),
    "rpg/verl_plugin/rollout.py": (
        Part("verl.workers.rollout.base", "_ROLLOUT_REGISTRY", "names the class of the actor's side of vLLM",
             names=(("vllm", "async"),)),
        Part("verl.workers.rollout.base", "get_rollout_class", "reads that name, a class's whole path",
             texts=("fqdn = _ROLLOUT_REGISTRY[(rollout_name, mode)]",)),
        Part("verl.workers.rollout.replica", "RolloutReplicaRegistry.register", "takes our replica, unimported",
             signature="(name, loader)", texts=("cls._registry[name] = loader",)),
        Part("verl.workers.rollout.replica", "RolloutReplicaRegistry.get", "gives it to the trainer",
             texts=("cls._registry[name]()",)),
        Part("verl.workers.rollout.replica", "RolloutReplica", "is what a replica is"),
        Part(WORKERS, "ActorRolloutRefWorker.init_model", "asks for the actor's side", texts=(
            "get_rollout_class(rollout_config.name, rollout_config.mode)",)),
        Part("verl.checkpoint_engine.base", "CheckpointEngineWorker.__init__",
             "asks for it where the rollout has GPUs of its own, after the import that a key names", texts=(
                 "import_external_libs(self.rollout_config.checkpoint_engine.custom_backend_module or None)",
                 "get_rollout_class(self.rollout_config.name, self.rollout_config.mode)(")),
    ),
    "rpg/verl_plugin/checkpoint_engine.py": (
        Part(CARRIERS, "CheckpointEngine", "is what ours is", abstract=(
            "prepare", "build_topology", "init_process_group", "finalize", "send_weights", "receive_weights")),
        Part(CARRIERS, "CheckpointEngineRegistry.register", "takes ours by its name", passed=("backend",),
             texts=("CheckpointEngineRegistry._registry[backend] = cls",)),
        Part(CARRIERS, "CheckpointEngineManager.__init__", "finds it there, after the import that a key names", texts=(
            "import_external_libs(self.config.custom_backend_module or None)",
            "CheckpointEngineRegistry.get(config.backend)")),
    ),
    "rpg/verl_plugin/shared_memory.py": (
        Part(CARRIERS, "CheckpointEngineManager.build_process_group", "has the two sides meet, the trainer's ranks "
             "first", texts=(
                 'actor_wg.execute_checkpoint_engine(["prepare"] * actor_wg.world_size) '
                 '+ rollout.execute_checkpoint_engine(["prepare"] * rollout.world_size)',
                 "self.backend_cls.build_topology(actor_wg.world_size, rollout.world_size, metadata)",
                 "actor_wg.execute_checkpoint_engine(**actor_wg_kwargs) "
                 "+ rollout.execute_checkpoint_engine(**rollout_kwargs)")),
        Part(CARRIERS, "CheckpointEngineManager.update_weights", "begins with that each time, and ends with finalize",
             texts=("self.build_process_group(rollout)", '["finalize"] * rollout.world_size')),
        Part(WORKERS, "ActorRolloutRefWorker.init_model", "makes the trainer's", texts=(
            "backend, is_master=(torch.distributed.get_rank() == 0), bucket_size=bucket_size, **engine_kwargs",)),
        Part(WORKERS, "ActorRolloutRefWorker.update_weights", "sends, on every rank of the trainer", texts=(
            "await self.checkpoint_engine.send_weights(per_tensor_param, global_steps=global_steps)",)),
        Part(CARRIERS, "CheckpointEngineWorker.__init__", "makes the rollout's",
             texts=("CheckpointEngineRegistry.new(backend, bucket_size=bucket_size, **engine_kwargs)",)),
        Part(CARRIERS, "CheckpointEngineWorker.update_weights", "receives, and hands the weights to vLLM", texts=(
            "self.checkpoint_engine.receive_weights(global_steps=global_steps)",
            'getattr(self.checkpoint_engine, "wire_format", "named_tensors")')),
    ),
    "rpg/verl_plugin/rollout_classes.py": (
        Part(VLLM_ACTOR, "ServerAdapter", "is the actor's side, which binds the socket", sets=("zmq_handle", "config")),
        Part(VLLM_ACTOR, "ServerAdapter.__init__", "names the socket by the job alone, in the text we replace",
             signature="(self, config, model_config, device_mesh, replica_rank=-1)", texts=(
                 "job_id = ray.get_runtime_context().get_job_id()",
                 'self.zmq_handle = f"ipc:///tmp/rl-colocate-zmq-{job_id}-replica-',
             )),
        Part(VLLM_WORKER, "vLLMColocateWorkerExtension._get_zmq_handle", "makes the same name on vLLM's side", texts=(
            'job_id = os.environ.get("VERL_RAY_JOB_ID", "0")',
            'return f"ipc:///tmp/rl-colocate-zmq-{job_id}-replica-',
        )),
        Part(VLLM_SERVER, "vLLMHttpServer.__init__", "sets the variable of which vLLM's side makes it", texts=(
            'os.environ["VERL_RAY_JOB_ID"] = ray.get_runtime_context().get_job_id()',)),
        Part(VLLM_SERVER, "vLLMHttpServer", "is vLLM's side, and holds the engine, which we ask whether it is dead",
             sets=("engine",)),
        Part(VLLM_SERVER, "vLLMReplica", "starts the servers", sets=("server_class",)),
        Part(VLLM_SERVER, "vLLMReplica.__init__", "says which class they are",
             texts=("self.server_class = ray.remote(vLLMHttpServer)",)),
        Part(VLLM_SERVER, "vLLMReplica.launch_servers", "makes them of that class",
             texts=("self.server_class.options(",)),
        Part("verl.workers.config", "RolloutConfig", "says whether verl starts servers past its registry",
             names=("disaggregation",)),
        Part("verl.workers.config.rollout", "DisaggregationConfig", "is where it says so", names=("enabled",)),
    ),
    "rpg/verl_plugin/trainer.py": (
        Part(TRAINER, "TRAINER_REGISTRY", "holds the trainer of each mode",
             names=("sync", "colocate_async", "separate_async")),
        Part(TRAINER, "get_trainer_cls", "takes it from there", texts=("return TRAINER_REGISTRY[name]",)),
        Part("verl.trainer.ppo.utils", "Role", "names a worker's parts",
             names=("Actor", "ActorRollout", "ActorRolloutRef", "RefPolicy")),
        Part(TRAINER, "PPOTrainer", "is what every trainer is",
             sets=("config", "role_worker_mapping", "mapping", "use_reference_policy", "global_steps")),
        Part(TRAINER, "PPOTrainer.__init__", "is extended: settings for the worker", signature="(self, config)",
             texts=("self.use_reference_policy = need_reference_policy(self.config)",
                    "self.replay_buffer = self._build_replay_buffer()")),
        Part(TRAINER, "PPOTrainer._init_resource_pool_mgr", "is extended: our worker",
             signature="(self)", texts=(
                 "Role.ActorRolloutRef if need_reference_policy(config) and not ref_in_actor else Role.ActorRollout",
                 "self.role_worker_mapping[role] = ray.remote(ActorRolloutRefWorker)",
                 "self.role_worker_mapping[Role.RefPolicy] = ray.remote(ActorRolloutRefWorker)",
                 'self.mapping[role] = "global_pool"',
             )),
        Part(TRAINER, "PPOTrainer._build_replay_buffer", "is extended: its batches are counted", signature="(self)",
             texts=("refill_fn=self._add_prompts_to_generate",)),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBuffer.sample", "gives a batch and metrics",
             signature="(self, global_steps, partition_id, batch_size)"),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBuffer._terminal_eviction_reasons",
             "says what is dropped, the failed groups third", signature="(self, global_steps, partition_id)"),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBufferAsync._terminal_eviction_reasons",
             "names them, where sync keeps them", signature="(self, global_steps, partition_id)", texts=(
                 "return stale_uids, dapo_uids, set(self.failure_keys[partition_id]), dapo_counts",)),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBufferAsync.wait_for_sampleable",
             "asks for as many as it dropped", texts=("self.refill_fn(len(evicted_uids))",)),
        Part(TRAINER, "PPOTrainer._add_prompts_to_generate", "is called for the refill, up to a limit",
             signature="(self, num_prompts)"),
        Part(TRAINER, "PPOTrainer.step", "is extended: metrics of a batch in parts",
             signature="(self, metrics, timing_raw)", texts=(
                 "metrics_aggregator.add_step_metrics(iter_metrics, sample_count=sample_count)",)),
        Part(TRAINER, "PPOTrainer._update_actor", "is extended: names of metrics",
             signature="(self, batch, metrics)", texts=('rename_dict(output["metrics"], "actor/")',)),
        Part(TRAINER, "PPOTrainer._setup", "makes the worker of the role, and its reference", texts=(
            "self._init_resource_pool_mgr()",
            "Role.ActorRolloutRef in self.role_worker_mapping",
            "config=self.config.actor_rollout_ref,",  # so our section reaches the worker
            "self.ref_policy_wg = all_wg[str(actor_role)]",
        )),
        Part(TRAINER, "PPOTrainer._step_once", "asks for reference log-probs after the old ones, once", texts=(
            "if self.use_reference_policy:", "batch = self._compute_ref_log_prob(batch, metrics=metrics)",
            "metrics.update(off_policy_metrics)")),
        Part("verl.trainer.ppo.v1.agent_loop_tq", "AgentLoopWorkerTQ._agent_loop_postprocess",
             "names a response by its prompt", texts=('f"{uid}_{session_id}_{i}"',)),
    ),
    "rpg/verl_plugin/reward_worker.py": (
        Part(REWARDS, "RewardLoopWorker", "is the reward worker that ours extends", sets=("config", "reward_manager")),
        Part(REWARDS, "RewardLoopWorker._init_reward_fn", "is extended: no tokenizer's code unasked",
             signature="(self)", texts=("hf_tokenizer(input_tokenizer_local_path, trust_remote_code=True)",)),
        Part(REWARDS, "RewardLoopManager.__init__", "makes the workers of the class of that name",
             texts=("ray.remote(RewardLoopWorker)",)),
        Part(REWARDS, "hf_tokenizer", "is what is replaced there"),
        Part("verl.utils", "hf_tokenizer", "loads a tokenizer, with transformers' arguments",
             signature="(name_or_path, correct_pad_token=True, correct_gemma2=True, **kwargs)"),
        Part("verl", "DataProto", "is the response that is scored", names=("non_tensor_batch",)),
        Part(REWARDS, "RewardLoopWorker.compute_score",
             "is extended: a limit, and numbers", signature="(self, data)"),
        Part("verl.experimental.agent_loop.agent_loop", "AgentLoopWorker._compute_score", "asks it, a response at once",
             texts=("for k, v in kwargs.items()", 'result["reward_score"]', 'result["reward_extra_info"]')),
        Part("verl.trainer.ppo.v1.agent_loop_tq", "AgentLoopWorkerTQ._run_prompt", "leaves a response out that failed",
             texts=("session_errors = await _settle_session_tasks(tasks)", 'status = "failure"')),
    ),
    "rpg/verl_plugin/nonfinite.py": (
        Part(FSDP, "FSDPEngine.optimizer_step", "is extended, and leaves out a step that is not finite",
             signature="(self)", texts=(
                 "if not torch.isfinite(grad_norm):", "self.optimizer.zero_grad()", "return grad_norm.item()")),
        Part("verl.workers.utils.losses", "ppo_loss", "is called, and takes its input from there",
             passed=("config", "model_output", "data", "dp_group"), texts=(
                 'no_padding_2_padding(model_output["log_probs"], data)', 'fields.append("rollout_is_weights")',
                 'fields.append("ref_log_prob")')),
    ),
    "rpg/verl_plugin/off_policy.py": (
        Part("verl.workers.utils.padding", "response_from_nested", "takes a response's log-probs out of a sequence's",
             signature="(tensor, response_mask)"),
        Part("verl.workers.utils.losses", "ppo_loss", "is called, and takes its log-probs from there",
             passed=("config", "model_output", "data", "dp_group"), texts=(
                 'no_padding_2_padding(model_output["log_probs"], data)', 'fields.append("rollout_is_weights")')),
        Part(TRAINER, "PPOTrainer._compute_old_log_prob", "has the rollout's log-probs by that name",
             texts=('select_fields=["rollout_log_probs"]', 'fields.extend(["responses", "rollout_log_probs"])')),
    ),
    "rpg/verl_plugin/engine.py": (
        Part("verl.utils.device", "get_device_name", "is how an engine is looked up", signature="()"),
        Part("verl.utils.device", "get_vendor", "is how it is looked up, too", signature="()"),
        Part("verl.workers.engine", "EngineRegistry.get_engine_cls",
             "looks for (device, vendor) before the device alone",
             signature="(model_type, backend)", texts=(
                 'os.getenv("VERL_ENGINE_DEVICE")', 'os.getenv("VERL_ENGINE_VENDOR")',
                 "vendor_key = (device, vendor) if vendor_key in registry: return registry[vendor_key]",
             )),
        Part("verl.workers.engine", "EngineRegistry.register", "takes our engine",
             passed=("model_type", "backend", "device", "vendor")),
    ),
    "rpg/verl_plugin/worker.py": (
        Part("verl.utils.tensordict_utils", "get", "reads the metrics of a batch",
             passed=("tensordict", "key")),
        Part("verl.single_controller.base.decorator", "register", "makes a method one of the worker group",
             passed=("dispatch_mode",)),
        Part("verl.single_controller.base.decorator", "Dispatch", "says which ranks it runs on", names=("ONE_TO_ALL",)),
        Part(WORKERS, "TrainingWorker", "is the actor, and the reference", sets=("engine", "loss_fn")),
        Part(WORKERS, "TrainingWorker.train_batch", "is extended: one optimizer step is counted",
             signature="(self, data)", texts=("self.engine.train_mode(disable_auto_offload=disable_auto_offload)",)),
        Part(WORKERS, "TrainingWorker.train_mini_batch", "is extended: an iteration ends", signature="(self, data)",
             texts=("self.train_batch(mini_batch_td)", 'non_tensor_dict={"metrics": metrics}',
                    "update_lr_scheduler=batch_idx == total_num_iterations - 1")),
        Part("verl.utils.tensordict_utils", "get_tensordict", "makes the metrics' batch anew",
             passed=("tensor_dict", "non_tensor_dict")),
        Part(WORKERS, "TrainingWorker.infer_batch", "is extended: the reference is renewed", signature="(self, data)"),
        Part(WORKERS, "TrainingWorker.save_checkpoint", "is extended: the reference beside the actor",
             signature="(self, local_path, hdfs_path=None, global_step=0, max_ckpt_to_keep=None)"),
        Part(WORKERS, "TrainingWorker.load_checkpoint", "is extended: its counterpart",
             signature="(self, local_path, hdfs_path=None, del_local_after_load=False)"),
        Part(WORKERS, "TrainingWorker.set_loss_fn", "takes our loss", signature="(self, loss_fn)"),
        Part(WORKERS, "ActorRolloutRefWorker", "is the worker that ours extends",
             names=("actor_worker_cls", "ref_worker_cls"), sets=("config", "actor", "ref", "loss_fn")),
        Part(WORKERS, "ActorRolloutRefWorker.init_model", "is extended, and makes actor and reference of our classes",
             signature="(self)", texts=(
                 "self.ref = self.ref_worker_cls(config=ref_training_config)",
                 "self.actor = self.actor_worker_cls(config=actor_training_config)",
                 "self.loss_fn = partial(ppo_loss, config=actor_config)",
             )),
        Part("verl.trainer.ppo.v1.trainer_separate_async", "PPOTrainerSeparateAsync._compute_old_log_prob",
             "keeps the anchor of a batch in parts, by our methods", texts=(
                 "self.actor_rollout_wg.save_model_to_cpu(self.local_trigger_step)",
                 "self.actor_rollout_wg.restore_model_from_cpu(0)",
                 "self.actor_rollout_wg.clear_cpu_model(self.local_trigger_step)")),
        Part(WORKERS, "ActorRolloutRefWorker.update_actor", "trains by train_mini_batch",
             texts=("self.actor.train_mini_batch(data=data)",)),
        Part(WORKERS, "ActorRolloutRefWorker.compute_ref_log_prob", "asks the reference by infer_batch",
             texts=("self.ref.infer_batch(data=data)",)),
        Part(FSDP, "FSDPEngine", "holds the model", sets=("module",)),
        Part(FSDP, "FSDPEngine.get_data_parallel_group", "is the group over which the KL is averaged",
             signature="(self)"),
    ),
    "rpg/verl_plugin/reference.py": (
        Part("verl.workers.utils.losses", "get_policy_loss_fn", "is replaced for the time of a call",
             signature="(name)"),
        Part("verl.workers.utils.losses", "ppo_loss", "is called with a loss that sees the reference",
             passed=("config", "model_output", "data", "dp_group"), texts=(
                 "policy_loss_fn = get_policy_loss_fn(loss_mode)",
                 'fields = ["response_mask", "old_log_probs", "advantages"]',
                 "data = data.select(*fields).to_padded_tensor()",
             )),
        Part(TRAINER, "PPOTrainer._compute_ref_log_prob", "puts ref_log_prob into the batch", texts=(
            'data["ref_log_prob"] = response_from_nested(',)),
    ),
    "rpg/verl_plugin/schedule_free.py": (
        Part(FSDP, "FSDPEngineWithLMHead", "is the engine that ours extends", sets=("module", "optimizer")),
        Part(FSDP, "FSDPEngineWithLMHead._build_lr_scheduler", "is extended: a rate that stays",
             signature="(self, optimizer)"),
        Part(FSDP, "FSDPEngineWithLMHead.train_mode", "is extended: weights at y", signature="(self, **kwargs)"),
        Part(FSDP, "FSDPEngineWithLMHead.lr_scheduler_step", "is extended: the rate of the step", signature="(self)"),
        Part("verl.workers.config.optimizer", "build_optimizer", "makes any optimizer by its name", texts=(
            "module = importlib.import_module(config.optimizer_impl)",
            "optimizer_args.update(config.override_optimizer_config)",
        )),
    ),
    "rpg/verl_plugin/cpu.py": (
        Part("verl.plugin.platform.platform_base", "PlatformBase", "is what our platform answers for", abstract=(
            "device_name", "vendor_name", "device_module", "is_available", "current_device", "device_count",
            "set_device", "synchronize", "manual_seed", "manual_seed_all", "set_allocator_settings", "empty_cache",
            "get_device_capability", "communication_backend_name", "visible_devices_envvar", "nvtx_range",
            "profiler_start", "profiler_stop", "ray_resource_name", "ray_noset_envvars", "is_ipc_supported",
            "cudart")),
        Part("verl.plugin.platform.platform_base", "PlatformBase.is_platform_available", "is asked when verl chooses",
             signature="(self, use_smi_check=False)"),
        Part("verl.plugin.platform.platform_manager", "PlatformRegistry.register", "takes our platform",
             passed=("platform",)),
        Part("verl.plugin.platform.platform_manager", "PlatformRegistry.get", "says whether it has it",
             signature="(name)"),
        Part("verl.plugin.platform.platform_manager", "_detect_platform_name", "obeys VERL_PLATFORM",
             texts=('os.environ.get("VERL_PLATFORM", "")',)),
        Part("verl.utils.distributed", "initialize_global_process_group_ray", "takes gloo for its backend",
             passed=("timeout_second", "backend")),
        Part(WORKERS, "TrainingWorker.__init__", "calls it without a backend",
             texts=("initialize_global_process_group_ray(timeout_second=None)",)),
        Part("verl.workers.engine", "EngineRegistry.get_engine_cls", "obeys VERL_ENGINE_DEVICE",
             texts=('os.getenv("VERL_ENGINE_DEVICE")',)),
        Part(FSDP, "CPUOffloadPolicy", "is torch's when the plugin replaces it there, and only then taken over"),
        Part(FSDP, "FSDPEngine", "asks for pinned memory", texts=("CPUOffloadPolicy(pin_memory=True)",)),
    ),
    "rpg/launching/compose.py": (
        Part("verl.trainer.config", "", "is where ppo_trainer.yaml lies, which our configuration extends"),
    ),
    "recipe/rpg/config/rpg_trainer.yaml": (  # keys that are not in verl's YAML; the others: rpg/checks/verl_version.py
        Part("verl.workers.config", "FSDPEngineConfig", "takes the precisions", names=("mixed_precision",)),
        Part(FSDP, "FSDPEngine._build_fsdp_module", "reads each of them", texts=(
            '.get("param_dtype",', '.get("reduce_dtype",', '.get("buffer_dtype",')),
        Part("verl.workers.config.model", "HFModelConfig", "hands attn_implementation to transformers",
             names=("override_config",), texts=('self.override_config.get("attn_implementation",',)),
        Part("verl.workers.config", "RolloutConfig", "takes what vLLM is started with",
             names=("enable_sleep_mode", "engine_kwargs")),
        Part(VLLM_SERVER, "vLLMHttpServer.launch_server", "starts vLLM with it", texts=(
            'self.config.get("engine_kwargs", {}).get(self._get_engine_kwargs_key(), {})',
            '"enable_sleep_mode": self.config.enable_sleep_mode,', "**engine_kwargs,")),
    ),
    "rpg/verl_plugin/bootstrap.py": (
        Part("verl.trainer.ppo.metric_utils", "bootstrap_metric", "is replaced, with the same draws and numbers",
             signature="(data, subset_size, reduce_fns, n_bootstrap=1000, seed=42)", texts=(
                 "np.random.seed(seed)",
                 "np.random.choice(n_data, size=(n_bootstrap, subset_size), replace=True)",
                 "float(np.mean(metric_results[fn_idx])), float(np.std(metric_results[fn_idx]))")),
        Part("verl.trainer.ppo.metric_utils", "process_validation_metrics", "looks it up when it is called",
             texts=("bootstrap_metric( data=var_vals, subset_size=n,", "bootstrap_metric( data=vote_data,")),
    ),
    "rpg/verl_plugin/fused_head.py": (
        Part("verl.utils.fsdp_utils", "_select_fsdp2_wrap_targets", "is replaced: the lm_head is left out",
             signature="(model, fsdp_transformer_layer_cls_to_wrap)", texts=('{"embed_tokens", "lm_head"}',)),
        Part("verl.utils.fsdp_utils", "apply_fsdp2", "looks it up when it is called",
             texts=("modules = _select_fsdp2_wrap_targets(model, fsdp_transformer_layer_cls_to_wrap)",)),
        Part("verl.models.transformers.monkey_patch", "patch_forward_with_backends", "marks a model with the kernel",
             texts=("model._verl_fused_kernels_backend = fused_kernels_backend",)),
        Part("verl.models.transformers.dense_common", "forward_with_torch_backend",
             "reads the head's weight, which is why", texts=("vocab_weights=self.lm_head.weight",)),
    ),
    "rpg/launching/run.py": (
        Part("verl.trainer.main_ppo", "run_ppo", "starts Ray and the task runner",
             passed=("config", "task_runner_class"),
             texts=("ray.init(**OmegaConf.to_container(ray_init_kwargs))", "runner = task_runner_class.remote()",
                    'runner = task_runner_class.options(runtime_env={"nsight": nsight_options}).remote()')),
        Part("verl.utils.device", "auto_set_device", "sets the device as verl's own main does", passed=("config",)),
    ),
    "rpg/verl_plugin/task_runner.py": (
        Part("verl.trainer.main_ppo", "TaskRunnerV1.__ray_metadata__.modified_class", "is the class that ours extends"),
        Part("verl.trainer.main_ppo", "TaskRunnerV1.__ray_metadata__.modified_class.run", "is extended: our trainer",
             signature="(self, config)", texts=("trainer_cls = get_trainer_cls(config.trainer.v1.trainer_mode)",)),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBuffer.__init__", "takes the poll interval, which has no key",
             passed=("trainer_mode", "trainer_config", "max_off_policy_threshold", "max_off_policy_strategy",
                     "sampler_kwargs", "refill_fn", "poll_interval")),
        Part(TRAINER, "PPOTrainer._build_replay_buffer",
             "makes the buffer by its class, without an interval of its own",
             texts=("sampler_cls = ReplayBuffer if", "sampler_cls(**replay_buffer_kwargs)")),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBuffer", "is the buffer of the synchronous trainer"),
        Part("verl.utils.import_utils", "import_external_libs", "imports what the configuration names",
             passed=("external_libs",)),
    ),
    "rpg/verl_plugin/checkpoints.py": (
        Part(TRAINER, "PPOTrainer", "is what every trainer is",
             sets=("config", "global_steps", "actor_rollout_wg", "trainer_mode")),
        Part(TRAINER, "PPOTrainer.__init__", "is extended", signature="(self, config)"),
        Part(TRAINER, "PPOTrainer._save_checkpoint", "is extended: the manifest, and what is kept", signature="(self)",
             texts=(
                 'self.config.trainer.default_local_dir, f"global_step_{self.global_steps}"',
                 'self.config.trainer.get("max_actor_ckpt_to_keep", None)',
                 'self.config.trainer.get("remove_previous_ckpt_in_save", False)',
                 'actor_ckpt_cfg.get("async_save", False)',
             )),
        Part(TRAINER, "PPOTrainer._load_checkpoint", "is extended: the loader's state is read as data, earlier "
             "checkpoints count, and an asynchronous trainer's queue, filled again, loses what has been trained on",
             signature="(self)", texts=(
                 "torch.load(dataloader_local_path, weights_only=False)",
                 'self.global_steps = int(global_step_folder.split("global_step_")[-1])',
                 'if self.trainer_mode != "sync":', "tq.load_checkpoint(tq_ckpt_path)",
             )),
        Part(TRAINER, "PPOTrainer.fit", "removes a step's responses when it ends, after it was saved",
             texts=("tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)",)),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBuffer._materialize_batch", "removes their prompts before",
             texts=("tq.kv_clear(partition_id=partition_id, keys=selected_prompt_uids)",)),
        Part("verl.single_controller.base.worker_group", "WorkerGroup.world_size", "is how many ranks save"),
    ),
    "rpg/verl_plugin/weights_only.py": (
        Part(CHECKPOINTS, "FSDPCheckpointManager", "reads a rank's files"),
        Part(CHECKPOINTS, "FSDPCheckpointManager.load_checkpoint", "is wrapped: they are read as data", texts=(
            "torch.load(local_model_path, weights_only=False)", "torch.load(local_optim_path, weights_only=False)",
            "torch.load(local_extra_state_path, weights_only=False)")),
        Part("verl.utils.checkpoint.checkpoint_manager", "BaseCheckpointManager.get_rng_state",
             "puts numpy's generator among them", texts=('"numpy": np.random.get_state()',)),
    ),
    "rpg/verl_plugin/file_logger.py": (
        Part("verl.utils.tracking", "FileLogger", "is extended: a file that goes on",
             sets=("project_name", "experiment_name", "filepath", "fp")),
        Part("verl.utils.tracking", "FileLogger.__init__", "is replaced, as it begins the file anew",
             signature="(self, project_name, experiment_name)",
             texts=('os.getenv("VERL_FILE_LOGGER_PATH", None)', 'open(self.filepath, "wb", buffering=0)')),
        Part("verl.utils.tracking", "FileLogger.log", "is extended: no record twice", signature="(self, data, step)"),
        Part("verl.utils.tracking", "Tracking.__init__", "looks the class up when it is made",
             texts=("FileLogger(project_name, experiment_name)",)),
    ),
    "rpg/launching/watch.py": (
        Part("verl.utils.tracking", "FileLogger.log", "writes a line a step", signature="(self, data, step)",
             texts=('data = {"step": step, "data": data}',)),
        Part(TRAINER, "PPOTrainer._val_metrics_update", "names the accuracy", texts=(
            'metric_sec = "val-core"', '"mean"', 'f"{metric_sec}/{data_source}/{var_name}/{metric_name}"')),
        Part("verl.trainer.ppo.metric_utils", "process_validation_metrics", "names the mean of n answers",
             texts=('f"mean@{n_resps}"',)),
    ),
    "recipe/rpg/config/profile/cpu.yaml": (
        Part("verl.trainer.main_ppo", "", "is imported once for all workers (rpg.preload.late)"),
        Part(WORKERS, "", "is imported with it"),
        Part("verl.workers.engine", "", "is imported with it"),
        Part(VLLM_SERVER, "", "is imported with it"),
    ),
    "rpg/checks/verl_own.py": (
        Part("verl.experimental.reward_loop.reward_manager.registry", "REWARD_MANAGER", "lists the reward managers",
             names=("dapo", "naive")),
        Part("verl.checkpoint_engine", "CheckpointEngineRegistry.get", "knows the engines that are there",
             signature="(backend)", texts=("raise ValueError(message)",)),
        Part("verl.trainer.ppo.utils", "need_reference_policy", "is an argument of verl's validation",
             passed=("config",)),
        Part("verl.trainer.ppo.utils", "need_critic", "is another one", passed=("config",)),
        Part("verl.utils.config", "omega_conf_to_dataclass", "makes the dataclasses that a worker would make",
             passed=("config",)),
        Part("verl.utils.config", "validate_config", "is verl's own validation",
             signature="(config, use_reference_policy, use_critic)"),
    ),
    "rpg/checks/combinations.py": (
        Part(TRAINER, "PPOTrainer._get_required_batch_multiple", "pads a batch to whole mini-batches", texts=(
            "required_multiple = math.lcm(required_multiple, actor_global_mini_batch_size)",)),
        Part("verl.experimental.reward_loop.reward_manager.dapo", "DAPORewardManager.__init__",
             "reads the overlong buffer",
             texts=('config.reward.get("reward_kwargs", {}).get("overlong_buffer_cfg", None)',
                    '.get("max_resp_len", None)')),
        Part("verl.experimental.reward_loop.reward_manager.dapo", "DAPORewardManager.run_single", "shapes by it",
             texts=("self.overlong_buffer_cfg.len", "self.overlong_buffer_cfg.penalty_factor",
                    "self.overlong_buffer_cfg.log")),
        Part(TRAINER, "PPOTrainer._resolve_filter_groups_metric", "reads the filter of groups",
             texts=('filter_groups.get("enable", False)', 'filter_groups.get("metric", None)')),
    ),
    "rpg/checks/off_policy.py": (
        Part(TRAINER, "PPOTrainer._compute_old_log_prob", "takes the rollout's log-probs for the old ones", texts=(
            'rollout_corr_config.get("bypass_mode", False)',
            'data["old_log_probs"] = data.pop("rollout_log_probs")')),
        Part(TRAINER, "PPOTrainer._compute_advantage", "makes the weights where it has those log-probs", texts=(
            'rollout_corr_config is not None and "rollout_log_probs" in data.batch and not bypass_recomputing_logprobs',
            'fields.append("rollout_is_weights")')),
        Part("verl.trainer.ppo.rollout_corr_helper", "compute_rollout_correction_and_rejection_mask",
             "makes none without a threshold",
             texts=("if rollout_is is not None and rollout_is_threshold is not None:",)),
        Part(ALGOS, "compute_policy_loss_bypass_mode", "leaves rollout_is_weights alone",
             texts=("rollout_is_weights=None,", "rollout_is_weights=computed_is_weights,")),
        Part("verl.trainer.ppo.v1.replay_buffer", "ReplayBufferAsync._stale_terminal_keys", "counts a response's age",
             texts=("global_steps - prompt_global_steps.get(uid, global_steps) + 1 > self.max_off_policy_threshold",)),
        Part("verl.trainer.ppo.v1.trainer_separate_async", "PPOTrainerSeparateAsync.__init__", "asserts what it needs",
             texts=("assert train_batch_size == parameter_sync_step * ppo_mini_batch_size",
                    "assert config.actor_rollout_ref.rollout.nnodes > 0",
                    "assert config.actor_rollout_ref.rollout.n_gpus_per_node > 0",
                    'config.actor_rollout_ref.rollout.checkpoint_engine.backend != "naive"',
                    'config.actor_rollout_ref.get("hybrid_engine", True)')),
    ),
    "rpg/files/judge.py": (
        Part("verl.utils.checkpoint.checkpoint_manager", "get_checkpoint_tracker_filename", "names the tracker",
             texts=('"latest_checkpointed_iteration.txt"',)),
        Part("verl.utils.checkpoint.checkpoint_manager", "find_latest_ckpt_path", "names a checkpoint by its step",
             texts=('directory_format="global_step_{}"',)),
        Part(TRAINER, "PPOTrainer._load_checkpoint", "takes the step from the name, and the actor from `actor`", texts=(
            'int(global_step_folder.split("global_step_")[-1])', 'os.path.join(global_step_folder, "actor")',
            'os.path.join(global_step_folder, "data.pt")')),
        Part(CHECKPOINTS, "FSDPConfig", "is fsdp_config.json", names=("world_size",)),
        Part(CHECKPOINTS, "FSDPCheckpointManager.save_checkpoint", "names the files of a rank", texts=(
            'f"model_world_size_{self.world_size}_rank_{self.rank}.pt"',
            'f"optim_world_size_{self.world_size}_rank_{self.rank}.pt"',
            'f"extra_state_world_size_{self.world_size}_rank_{self.rank}.pt"', '"fsdp_config.json"')),
    ),
    "rpg/checks/reward.py": (
        Part("verl.utils.import_utils", "PKG_PATH_PREFIX", "is how a module is named for a path (pkg://rpg.rewards)"),
        Part("verl.utils.import_utils", "load_module", "imports it",
             texts=("module_path.startswith(PKG_PATH_PREFIX)",)),
    ),
    "rpg/rewards/__init__.py": (
        Part("verl.experimental.reward_loop.reward_manager.dapo", "DAPORewardManager.run_single", "calls compute_score",
             texts=(
            "self.compute_score(data_source=data_source, solution_str=response_str, ground_truth=ground_truth, "
            "extra_info=extra_info, **extra_reward_kwargs,)",
            'data_item.non_tensor_batch["reward_model"]["ground_truth"]',
            'score = result["score"]',
        )),
        Part("verl.trainer.ppo.reward", "get_custom_reward_fn", "hands it reward_kwargs, the judge among them", texts=(
            'reward_kwargs = dict(reward_fn_config.get("reward_kwargs", {}))',)),
    ),
    "rpg/data/schema.py": (
        Part("verl.utils.dataset.rl_dataset", "RLHFDataset", "reads our files", texts=(
            'self.prompt_key = config.get("prompt_key", "prompt")',
            'row_dict.get("extra_info", {}).get("index", 0)',
            'row_dict["raw_prompt"] = self._build_messages(row_dict, key=self.prompt_key)',
        )),
    ),
    "rpg/results/samples.py": (
        Part(TRAINER, "PPOTrainer._write_generations", "writes the samples of a validation", texts=(
            'f"{global_steps}.jsonl"', '"input": inputs', '"output": outputs', '"gts": gts', "base_data[k] = v")),
    ),
    "rpg/results/figures.py": (
        Part("verl.trainer.ppo.metric_utils", "compute_data_metrics", "names metrics that are drawn",
             texts=('"critic/score/mean"', '"response_length/mean"')),
        Part(TRAINER, "PPOTrainer._compute_old_log_prob", "names the entropy", texts=('"actor/entropy"',)),
        Part(TRAINER, "PPOTrainer._compute_metrics", "names the staleness",
             texts=('"training/off_policy/trajectory_staleness/mean"',)),
    ),
    "rpg/results/tensorboard.py": (
        Part("verl.utils.tracking", "_TensorboardAdapter.log", "writes a scalar a metric",
             texts=("self.writer.add_scalar(key, data[key], step)",)),
    ),
    "rpg/results/eval_command.py": (
        Part(TRAINER, "PPOTrainer.fit", "ends after the first validation",
             texts=('self.config.trainer.get("val_only", False)',)),
    ),
    "rpg/results/export_command.py": (
        Part("verl.model_merger.__main__", "main", "is python -m verl.model_merger", signature="()"),
        Part("verl.model_merger.base_model_merger", "parse_args", "knows our arguments",
             texts=('"--local_dir"', '"--target_dir"', '"--backend"', '"merge"')),
        Part(CHECKPOINTS, "FSDPConfig", "is fsdp_config.json", names=("world_size",)),
        Part(CHECKPOINTS, "FSDPCheckpointManager.save_checkpoint", "names the files of a checkpoint", texts=(
            'f"model_world_size_{self.world_size}_rank_{self.rank}.pt"', '"fsdp_config.json"', '"huggingface"')),
    ),
}  # fmt: skip
