"""For every preflight check: overrides that it rejects, and the settings that it names.

[] means the last of the overrides. {toy} is the toy run's directory with the files of test_checks.py.
"""

A = "actor_rollout_ref.actor"
L = f"{A}.policy_loss.loss_mode"
M = "actor_rollout_ref.model"
R = "actor_rollout_ref.rollout"
F = f"{A}.fsdp_config"
REF = "actor_rollout_ref.ref"
BUCKET = f"{R}.checkpoint_engine.update_weights_bucket_megabytes"
UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
BACKEND = f"{R}.checkpoint_engine.custom_backend_module"
ULYSSES = "ulysses_sequence_parallel_size"
FLASH = f"{M}.override_config.attn_implementation=flash_attention_2"
RESUME, FROM = "trainer.resume_mode=resume_path", "trainer.resume_from_path"
DIRECTORY = "trainer.default_local_dir"
KWARGS = "reward.custom_reward_function.reward_kwargs"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
CORRECTION = "algorithm.rollout_correction"
RS = f"{CORRECTION}.rollout_rs"
LIMIT = f"{RS}_threshold=2.0"
LOG_PROBS = f"{R}.calculate_log_probs=true"
SEPARATE = ["schedule=separate", "pi_old=decoupled"]
CASES: list[tuple[str, list[str], list[str]]] = [
    ("mini_batches", [f"{A}.ppo_mini_batch_size=24"], []),
    ("ranks", ["trainer.n_gpus_per_node=3"], [f"{A}.ppo_mini_batch_size=16"]),
    ("ranks", [f"{A}.{ULYSSES}=2"], []),
    ("ranks", [f"{F}.{ULYSSES}=2"], []),
    ("ulysses", [f"{A}.{ULYSSES}=2"], []),
    ("ulysses", [f"{F}.{ULYSSES}=2"], []),
    ("ulysses", ["reference=fixed", f"{REF}.fsdp_config.{ULYSSES}=2"], []),
    ("ulysses", ["reference=fixed", f"{REF}.{ULYSSES}=2"], []),
    ("ulysses", [FLASH, f"{F}.{ULYSSES}=2"], []),
    ("rollout_replicas", [f"{R}.tensor_model_parallel_size=3"], []),
    ("rollout_sockets", ["trainer.v1.trainer_mode=separate_async", f"{BACKEND}=null"], []),
    ("rollout_sockets", [f"{M}.external_lib=null", f"{BACKEND}=rpg.verl_plugin.rollout"], [f"{M}.external_lib=null"]),
    ("token_budgets", [f"{R}.max_model_len=111"], []),
    (
        "token_budgets",
        [f"{A}.ppo_max_token_len_per_gpu=111"],
        [f"{A}.ppo_max_token_len_per_gpu=111", f"{R}.log_prob_max_token_len_per_gpu=111"],
    ),
    ("token_budgets", [f"{R}.enable_chunked_prefill=false", f"{R}.max_num_batched_tokens=64"], []),
    ("context", [f"{M}.path=Qwen/Qwen2.5-Math-7B", "data.max_response_length=4096"], [f"{R}.max_model_len=4176"]),
    ("overlong_shaping", [f"{OVERLONG}.len=32"], []),
    ("overlong_shaping", ["reward.reward_manager.name=naive"], []),
    ("overlong_shaping", ["reward.reward_kwargs.max_resp_len=64"], []),
    ("dynamic_sampling", ["algorithm.filter_groups.enable=true", f"{R}.n=1"], []),
    ("dynamic_sampling", ["algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=null"], []),
    ("dynamic_sampling", ["algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=accuracy"], []),
    ("resumption", [RESUME], [f"{FROM}=null"]),
    ("resumption", [f"{FROM}=/x/global_step_1"], []),
    ("resumption", ["data.val_max_samples=8", "data.seed=null"], []),
    ("saving", [f"{A}.checkpoint.async_save=true"], []),
    ("saving", ["trainer.default_hdfs_dir=hdfs://x/y"], []),
    (
        "saving",
        [f"{A}.checkpoint.save_contents=[optimizer,extra]"],
        [f"{A}.checkpoint.{name}_contents=[optimizer,extra]" for name in ("save", "load")],
    ),
    ("metrics_file", ["trainer.logger=[console,wandb]"], []),
    ("validation", ["trainer.val_only=true", "trainer.val_before_train=false"], []),
    ("validation", [f"{R}.val_kwargs.do_sample=false"], []),
    ("loss_name", [f"{L}=rpg_rf_urlk_clip_ppo"], []),
    ("estimator_name", ["algorithm.adv_estimator=rpgg"], []),
    ("total_mass", [f"{L}=rpg_fkl", f"+{A}.policy_loss.z_old=2.0"], []),
    ("clip_of_the_loss", [f"+{A}.policy_loss.clip_scope=none"], []),
    ("clip_of_the_loss", ["method=rpg", f"+{A}.policy_loss.clip_branch=psi"], []),
    ("kl_counted_once", [f"{A}.use_kl_loss=true"], []),
    ("kl_counted_once", ["algorithm.use_kl_in_reward=true"], []),
    ("beta_reaches_the_loss", ["method=dapo", f"{L}=rpg_urkl"], []),
    ("reference", ["rpg.reference.mode=every_k"], ["rpg.reference.every_k=null"]),
    ("reference", ["reference=every_k", "rpg.reference.kl_target=0.1"], []),
    ("reference", ["reference=fixed", f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp", f"{REF}.strategy=fsdp"]),
    ("reference", ["reference=every_k", f"{M}.lora_rank=8"], []),
    ("reference", ["reference=fixed", f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a"], []),
    ("reference", ["method=grpo", f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a"], []),
    ("reference", ["reference=fixed", f"{REF}.fsdp_config.fsdp_size=1"], []),
    (
        "reference",
        [
            "reference=fixed",
            f"{A}.use_dynamic_bsz=false",
            f"{A}.ppo_micro_batch_size_per_gpu=4",
            f"{R}.log_prob_micro_batch_size_per_gpu=4",
        ],
        [f"{REF}.log_prob_micro_batch_size_per_gpu=null"],
    ),
    ("unread", ["trainer.balance_batch=false"], []),
    ("unread", [f"{R}.over_sample_rate=0.1"], []),
    ("unread", ["algorithm.use_pf_ppo=true"], []),
    ("unread", ["trainer.critic_warmup=5"], []),
    ("unread", [f"{A}.clip_ratio=0.3"], []),
    ("unread", [f"{A}.optim.lr_warmup_steps_ratio=0.1"], []),
    ("unread", [f"{R}.response_length=5"], []),
    ("unread", ["custom_reward_function.path=/a.py"], []),
    ("lora", [f"{M}.lora.rank=8"], []),
    ("lora", [f"{M}.lora_adapter_path=/a"], []),
    ("lora", ["schedule=separate", "pi_old=behavior", f"{M}.lora_rank=8"], []),
    ("pi_old", ["rpg.pi_old=behavior"], []),
    ("pi_old", ["pi_old=decoupled", f"{CORRECTION}.rollout_is=null"], ["rpg.pi_old=decoupled"]),
    ("pi_old", [f"{CORRECTION}.bypass_mode=true", f"{CORRECTION}.rollout_is=token"], []),
    ("pi_old", ["pi_old=behavior", f"{R}.calculate_log_probs=false"], []),
    ("pi_old", ["pi_old=decoupled", f"{CORRECTION}.rollout_is_threshold=null"], []),
    ("pi_old", ["pi_old=decoupled", "method=dapo", f"{L}=bypass_mode"], []),
    ("rejection", [f"{RS}=token_k4", LIMIT, LOG_PROBS], [f"{RS}=token_k4"]),
    ("rejection", [f"{RS}=token_k1", f"{RS}_threshold=0.5", LOG_PROBS], [f"{RS}_threshold=0.5"]),
    ("rejection_sampling", [f"{RS}=token_k1", LOG_PROBS], [f"{RS}_threshold=null"]),
    ("rejection_sampling", [f"{RS}=token_k1", LIMIT, f"{R}.calculate_log_probs=false"], []),
    ("rejection_sampling", ["pi_old=behavior", f"{RS}=token_k1", LIMIT], [f"{RS}=token_k1"]),
    ("asynchronous_pi_old", ["schedule=async"], ["trainer.v1.trainer_mode=colocate_async"]),
    ("staleness", ["schedule=async", "pi_old=behavior", "trainer.v1.colocate_async.num_warmup_batches=7.5"], []),
    ("separate_rollouts", [*SEPARATE, f"{R}.tensor_model_parallel_size=2", f"{R}.n_gpus_per_node=3"], []),
    ("separate_rollouts", [*SEPARATE, f"{A}.strategy=fsdp"], []),
    ("separate_rollouts", [*SEPARATE, "reference=every_k"], ["rpg.reference.mode=every_k"]),
    ("separate_rollouts", [*SEPARATE, "reference=fixed", "actor_rollout_ref.hybrid_engine=false"], []),
    ("schedule_free", ["optim=schedulefree", f"{A}.optim.optimizer=AdamW"], []),
    ("schedule_free", ["optim=schedulefree", f"{A}.optim.lr_warmup_steps=10"], []),
    ("schedule_free", [f"{A}.optim.optimizer=AdamWScheduleFree"], []),
    ("judge", [f"+{KWARGS}.boxed_fallback=true"], [f"{KWARGS}.boxed_fallback=True"]),
    ("judge", [f"+{KWARGS}.time_limit=0"], []),
    ("judge", [f"+{KWARGS}.jugde=release"], []),
    ("judge", ["reward.custom_reward_function.path={toy}/mine.py"], [f"{KWARGS}.judge=release"]),
    ("reward_function", ["reward.custom_reward_function.path=/nowhere/mine.py"], []),
    ("reward_function", ["reward.custom_reward_function.path=pkg://no.such.module"], []),
    ("reward_function", ["reward.custom_reward_function.name=compute"], []),
    ("reward_function", ["reward.custom_reward_function.path={toy}/train.parquet"], []),
    ("external_library", ["rpg.external_lib=[/nowhere/mine.py]"], [f"{M}.external_lib=/nowhere/mine.py"]),
    ("external_library", ["rpg.external_lib=[no.such.module]"], [f"{M}.external_lib=no.such.module"]),
    ("external_library", ["rpg.external_lib=[{toy}]"], [f"{M}.external_lib={{toy}}"]),
    ("weight_bucket", [f"{M}.path=Qwen/Qwen3-4B"], [f"{BUCKET}=128"]),
    ("weight_bucket", [f"{M}.path=Qwen/Qwen3-4B", f"{BUCKET}=1483"], []),
    (
        "weight_bucket",  # a warning without the adapter
        ["trainer.device=cuda", f"{M}.path=Qwen/Qwen2.5-7B-Instruct", f"{M}.lora_rank=8", f"{BUCKET}=2048"],
        [],
    ),
    ("devices", ["trainer.nnodes=2"], []),
    ("devices", ["ray_kwargs.ray_init.num_gpus=0"], ["trainer.n_gpus_per_node=1"]),
    ("devices", ["ray_kwargs.ray_init.num_gpus=null", "trainer.n_gpus_per_node=8"], []),
    ("flash_attention", [FLASH], []),
    ("directory_name", [f"{DIRECTORY}={{toy}}/$HOME"], []),
    ("checkpoint", [RESUME, f"{FROM}=/nowhere/global_step_1"], []),
    ("checkpoint", [RESUME, f"{FROM}={{toy}}/model"], []),
    ("checkpoint", [RESUME, f"{FROM}={{toy}}/global_step_1"], []),
    ("checkpoint", [RESUME, f"{FROM}={{toy}}/cut/global_step_4"], []),
    ("checkpoint", [f"{DIRECTORY}={{toy}}/resumed"], []),
    ("checkpoint", [f"{DIRECTORY}={{toy}}/cut"], []),
    ("checkpoint", [f"{DIRECTORY}={{toy}}/two"], []),
    ("checkpoint", [RESUME, f"{FROM}={{toy}}/two/global_step_4"], []),
    ("checkpoint", [f"{DIRECTORY}={{toy}}/weights"], []),
    ("checkpoint", ["schedule=async", "pi_old=behavior", f"{DIRECTORY}={{toy}}/ahead"], [f"{UNITS}=1"]),
    ("checkpoint", [f"{DIRECTORY}={{toy}}/one", "reference=every_k"], [f"{DIRECTORY}={{toy}}/one"]),
    (
        "files_fit",
        ["data.train_files=[{toy}/train.parquet,{toy}/long.parquet]"],
        ["data.train_files={toy}/long.parquet"],
    ),
    ("data_files", ["data.train_files=/nowhere/a.parquet"], []),
    ("data_files", ["data.val_files={toy}/bad.parquet"], []),
    ("data_files", ["data.train_files={toy}/other.parquet"], []),
    ("data_files", ["data.train_files='{toy}/toy[1].parquet'"], []),
    ("data_files", ["data.train_files={toy}/empty.parquet"], []),
    (
        "data_files",
        ["data.prompt_key=question"],
        ["data.train_files={toy}/train.parquet", "data.val_files={toy}/test.parquet"],
    ),
    ("data_sources", ["data.val_files={toy}/riddles.parquet"], []),
    ("enough_rows", ["data.train_batch_size=80"], []),
    ("enough_rows", ["trainer.total_epochs=2", "trainer.total_training_steps=9"], []),
    ("prompts_fit", ["data.max_prompt_length=10"], []),
    ("model_directory", [f"{M}.path=/nowhere/model"], []),
    ("model_directory", [f"{M}.path={{toy}}/mine.py"], []),
    ("registered", [f"{L}=gsp"], []),
    ("registered", ["algorithm.adv_estimator=grpp"], []),
    ("registered", [f"{OVERLONG}.enable=false", "reward.reward_manager.name=dap"], []),
    ("registered", [*SEPARATE, f"{R}.checkpoint_engine.backend=nccl"], []),  # no cupy in a CPU environment
    ("cpus", ["ray_kwargs.ray_init.num_cpus=4"], []),  # 1 + 1 unit + 3 a GPU
    ("cpus", ["ray_kwargs.ray_init.num_cpus=11", f"{UNITS}=8"], ["ray_kwargs.ray_init.num_cpus=11"]),
    ("cpus", [*SEPARATE, "ray_kwargs.ray_init.num_cpus=6"], []),  # and 2 for the rollouts' GPU
    ("loss_sees_the_reference", ["method=dapo", "reference=fixed"], ["rpg.reference.mode=fixed"]),
    ("verl_types", [f"+{A}.kl_los_coef=1"], []),
    ("verl_types", [f"{A}.policy_loss._target_=rpg.Nothing"], []),
    ("verl_types", ["+algorithm.lamda=0.9"], []),
    ("verl_validation", [f"{A}.use_dynamic_bsz=false"], [A]),
    ("verl_validation", [f"{M}.lora_rank=100000"], ["verl's validate_config"]),
]

AGGREGATION = f"{A}.loss_agg_mode"
# checks that warn, overrides, and what the warning says; None without a warning
WARNED: list[tuple[str, list[str], str | None]] = [
    ("bounds_of_the_loss", ["method=dapo", f"{L}=gspo"], "use 0.0003 and 0.0004"),
    ("bounds_of_the_loss", ["method=dapo", f"{L}=cispo"], "use 1 and 4"),
    ("bounds_of_the_loss", ["method=dapo", f"{L}=dppo_kl"], "use 0.05 and 0.05"),
    ("bounds_of_the_loss", ["method=gspo", "clip=0.2_0.28"], "use 0.0003 and 0.0004"),
    ("bounds_of_the_loss", ["method=dapo", f"{L}=gspo", "clip=3e-4_4e-4"], None),
    *(("bounds_of_the_loss", [f"method={method}"], None) for method in ("cispo", "dppo", "sapo", "dapo")),
    ("bounds_of_the_loss", ["method=rpg", f"{A}.clip_ratio_low=0.5"], None),
    ("aggregation_of_the_loss", ["method=sapo"], None),
    ("aggregation_of_the_loss", ["method=sapo", f"{AGGREGATION}=token-mean"], f"{AGGREGATION}=token-mean: is not read"),
    ("aggregation_of_the_loss", ["method=dapo", f"{L}=geo_mean"], f"{L}=geo_mean: averages over each micro-batch"),
    ("aggregation_of_the_loss", ["method=gspo", f"{AGGREGATION}=token-mean"], None),
    ("aggregation_of_the_loss", ["method=dr_grpo"], None),
    ("aggregation_of_the_loss", ["method=rpg"], None),
    ("aggregation_of_the_loss", ["method=rpg", f"{AGGREGATION}=seq-mean-token-sum-norm"], f"{A}.loss_scale_factor="),
    ("saving", [f"{A}.checkpoint.save_contents=[model,extra]"], "lacks optimizer or extra"),
    ("separate_rollouts", [*SEPARATE, "algorithm.adv_estimator=rpg_batchmean"], "takes its mean over"),
    ("beta_reaches_the_loss", ["method=grpo", "rpg.kl_coef=3e-3"], "rpg.kl_coef=0.003: reaches no KL"),
    ("beta_reaches_the_loss", ["rpg.kl_coef=3e-3", f"{A}.policy_loss.kl_coef=0.5"], "rpg.kl_coef=0.003: reaches no KL"),
    ("beta_reaches_the_loss", ["method=rfpp", "rpg.kl_coef=3e-3"], None),
    ("beta_reaches_the_loss", ["method=dapo", "rpg.kl_coef=0"], None),
    ("resumption", ["method=kl_in_reward", "algorithm.kl_ctrl.type=adaptive"], "begins at algorithm.kl_ctrl.kl_coef="),
]

# overrides of which no RunConfig can be made
TYPES: list[tuple[list[str], list[str]]] = [
    ([f"{R}.n=abc", "data.train_batch_size=2.5"], ["data.train_batch_size=2.5", f"{R}.n='abc'"]),
    ([f"{A}.optim.lr=nan"], []),
    (["trainer.resume_mode=resum"], []),
    ([f"{A}.clip_ratio_c=1.0"], []),
    ([f"{A}.clip_ratio_low=-0.2"], []),
    (["trainer.use_v1=false"], []),
    (["rpg.time_limit=2h"], []),
    (["trainer.logger=[console,tensorbord]"], []),
    (["~trainer.nnodes"], ["trainer.nnodes"]),
    (["rpg.reference=null"], []),
    ([f"+{A}.policy_loss.clip_scope=all"], []),
    (["rpg.max_num_seqs.qwen2_7b=0"], ["rpg.max_num_seqs={'qwen2_7b': 0, 'qwen3_4b': 248}"]),
    ([f"{DIRECTORY}=/tmp/" + 256 * "x"], []),
    (["trainer.experiment_name=a/b"], []),
    (["+trainer.totl_training_steps=3"], []),
    (["+data.max_promt_length=77"], []),
    (["reward.reward_kwargs=5"], []),
    (["+rpg.reference.every=3"], []),
    (["data.return_raw_chat=7"], []),
]
