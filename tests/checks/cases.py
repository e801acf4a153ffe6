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
IS, RS = f"{CORRECTION}.rollout_is", f"{CORRECTION}.rollout_rs"
LIMIT = f"{RS}_threshold=2.0"
TRUNCATED = "rpg.truncated_sampling=true"
LOG_PROBS = f"{R}.calculate_log_probs=true"
RESPONSES = ["method=rpg", "reference=fixed", "schedule=async", "pi_old=decoupled", "rpg.kl_scope=response"]
SEPARATE = ["schedule=separate", "pi_old=decoupled"]
ONE_UPDATE = ["data.train_batch_size=16", f"{A}.ppo_mini_batch_size=16"]
THINKING = f'+{M}.custom_chat_template="{{% if enable_thinking is defined %}}a{{% endif %}}{{{{ messages }}}}"'
CASES: list[tuple[str, list[str], list[str]]] = [
    ("mini_batches", [f"{A}.ppo_mini_batch_size=24"], []),
    ("mini_batches", ["trainer.n_gpus_per_node=3"], [f"{A}.ppo_mini_batch_size=16"]),
    ("ulysses", [f"{A}.{ULYSSES}=2"], []),
    ("ulysses", [f"{F}.{ULYSSES}=2"], []),
    ("ulysses", ["reference=fixed", f"{REF}.fsdp_config.{ULYSSES}=2"], []),
    ("ulysses", ["reference=fixed", f"{REF}.{ULYSSES}=2"], []),
    ("ulysses", [FLASH, f"{F}.{ULYSSES}=2"], []),
    ("token_budgets", [f"{R}.max_model_len=111"], []),
    (
        "token_budgets",
        [f"{A}.ppo_max_token_len_per_gpu=111"],
        [f"{A}.ppo_max_token_len_per_gpu=111", f"{R}.log_prob_max_token_len_per_gpu=111"],
    ),
    ("token_budgets", [f"{R}.enable_chunked_prefill=false", f"{R}.max_num_batched_tokens=64"], []),
    ("token_budgets", ["reference=fixed", f"{REF}.log_prob_max_token_len_per_gpu=111"], []),
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
    ("saving", ["trainer.logger=[console,wandb]"], []),
    ("validation", ["trainer.val_only=true", "trainer.val_before_train=false"], []),
    ("validation", [f"{R}.val_kwargs.do_sample=false"], []),
    ("names_of_ours", [f"{L}=rpg_rf_urlk_clip_ppo"], []),
    ("names_of_ours", ["algorithm.adv_estimator=rpgg"], []),
    ("read_by_the_loss", [f"{L}=rpg_fkl", f"+{A}.policy_loss.z_old=2.0"], []),
    ("read_by_the_loss", [f"+{A}.policy_loss.clip_scope=none"], []),
    ("read_by_the_loss", ["method=rpg_rf", f"{A}.clip_ratio_low=0.1"], []),
    ("read_by_the_loss", ["method=rpg_rf", f"{A}.clip_ratio_high=0.1"], []),
    ("read_by_the_loss", ["method=rpg_rf_clip_hard", f"{A}.clip_ratio_c=3"], []),
    ("read_by_the_loss", ["method=rpg", f"+{A}.policy_loss.clip_scope=none", f"{A}.clip_ratio_c=3"], []),
    ("read_by_the_loss", ["method=rpg_rf", "rpg.kl_scope=response", f"+{A}.policy_loss.z_old=2.0"], []),
    ("read_by_the_loss", ["method=rpg_rf", "reference=fixed", "rpg.kl_scope=response", "rpg.rho_bound=5"], []),
    ("kl_counted_once", [f"{A}.use_kl_loss=true"], []),
    ("kl_counted_once", ["algorithm.use_kl_in_reward=true"], []),
    ("reference", ["reference=fixed", f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp", f"{REF}.strategy=fsdp"]),
    ("reference", ["reference=every_k", f"{M}.lora_rank=8"], []),
    ("reference", ["reference=fixed", f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a"], []),
    ("reference", ["method=grpo", f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a"], []),
    ("reference", ["reference=fixed", f"{REF}.fsdp_config.fsdp_size=1"], []),
    ("read_by_verl", [f"+{R}.repetition_penalty=1.1"], []),
    ("read_by_verl", ["trainer.critic_warmup=5"], []),
    ("read_by_verl", [f"{A}.clip_ratio=0.3"], []),
    ("read_by_verl", [f"{A}.optim.lr_warmup_steps_ratio=0.1"], []),
    ("token_budgets", [f"{R}.response_length=5"], []),
    ("lora", [f"{M}.lora.rank=8"], []),
    ("lora", [f"{M}.lora_adapter_path=/a"], []),
    ("separate_rollouts", ["schedule=separate", "pi_old=behavior", f"{M}.lora_rank=8"], []),
    ("sampled_distribution", [f"{R}.top_p=0.8"], []),
    ("sampled_distribution", ["method=grpo", f"{R}.top_k=50"], []),
    ("sampled_distribution", ["pi_old=behavior", f"{R}.top_p=0.99"], []),
    ("sampled_distribution", [f"+{R}.engine_kwargs.vllm.logits_processors=[mine]"], []),
    (
        "sampled_distribution",
        [f"+{R}.engine_kwargs.sglang.preferred_sampling_params={{min_p:0.1}}"],
        [f"{R}.engine_kwargs.sglang.preferred_sampling_params={{min_p: 0.1}}"],
    ),
    ("sampled_distribution", ["pi_old=decoupled", f"{R}.temperature=0.8", f"{R}.logprobs_mode=raw_logprobs"], []),
    ("sampled_distribution", ["pi_old=behavior", f"+{R}.engine_kwargs.vllm.logprobs_mode=processed_logits"], []),
    ("sampled_distribution", [LOG_PROBS, f"{R}.top_p=0.9", TRUNCATED, f"{R}.logprobs_mode=raw_logprobs"], []),
    ("rejection_sampling", [f"{RS}=token_k1", LOG_PROBS], [f"{RS}_threshold=null"]),
    ("rejection_sampling", [f"{RS}=token_k1", LIMIT, f"{R}.calculate_log_probs=false"], []),
    ("kl_of_responses", ["method=rpg_rf", "rpg.divergence=fkl", "rpg.kl_scope=response"], []),
    ("kl_of_stale_responses", RESPONSES, []),
    (
        "kl_of_stale_responses",
        [*RESPONSES, "pi_old=decoupled_sequence", f"{IS}_threshold=0.5_2.0"],
        ["rpg.kl_scope=response"],
    ),
    (
        "rejection_sampling",
        ["method=rpg", "reference=fixed", "rpg.kl_scope=response", LOG_PROBS, LIMIT, f"{RS}=token_k1"],
        [],
    ),
    ("rejection_sampling", ["pi_old=behavior", f"{RS}=token_k1", LIMIT], [f"{RS}=token_k1"]),
    ("asynchronous_pi_old", ["schedule=async"], ["trainer.v1.trainer_mode=colocate_async"]),
    ("staleness", ["schedule=async", "pi_old=behavior", "trainer.v1.colocate_async.num_warmup_batches=7.5"], []),
    ("separate_rollouts", [*SEPARATE, "reference=every_k"], ["rpg.reference.mode=every_k"]),
    ("separate_rollouts", [*SEPARATE, "reference=fixed", "actor_rollout_ref.hybrid_engine=false"], []),
    ("schedule_free", ["optim=schedulefree", f"{A}.optim.optimizer=AdamW"], []),
    ("schedule_free", ["optim=schedulefree", f"{A}.optim.lr_warmup_steps=10"], []),
    ("schedule_free", [f"{A}.optim.optimizer=AdamWScheduleFree"], []),
    ("judge", [f"+{KWARGS}.jugde=release"], []),
    ("judge", ["reward.custom_reward_function.path={toy}/mine.py"], [f"{KWARGS}.judge=release"]),
    ("reward_function", ["reward.custom_reward_function.path=/nowhere/mine.py"], []),
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
    ("data_files", ["data.val_files={toy}/riddles.parquet"], []),
    ("data_files", ["data.val_files={toy}/sonnets.parquet"], []),
    ("data_files", ["data.train_batch_size=80"], []),
    ("data_files", ["trainer.total_epochs=2", "trainer.total_training_steps=9"], []),
    ("prompts_fit", ["data.max_prompt_length=10"], []),
    ("truths", ["data.val_files={toy}/letters.parquet"], [f"{KWARGS}.judge=release"]),
    ("prompts_fit", [THINKING, "+data.apply_chat_template_kwargs.enable_thinkng=false"], []),
    ("agent_loops", ["data.val_files={toy}/agents.parquet"], []),
    ("agent_loops", [f"{R}.agent.default_agent_loop=singel_turn_agent"], []),
    ("agent_loops", [f"{R}.agent.agent_loop_config_path=/nowhere/loops.yaml"], []),
    ("model_directory", [f"{M}.path=/nowhere/model"], []),
    ("model_directory", [f"{M}.path={{toy}}/mine.py"], []),
    ("registered", [f"{L}=gsp"], []),
    ("registered", ["algorithm.adv_estimator=grpp"], []),
    ("cpus", ["ray_kwargs.ray_init.num_cpus=4"], []),  # 1 + 1 unit + 3 a GPU
    ("cpus", ["ray_kwargs.ray_init.num_cpus=11", f"{UNITS}=8"], ["ray_kwargs.ray_init.num_cpus=11"]),
    ("cpus", [*SEPARATE, "ray_kwargs.ray_init.num_cpus=6"], []),  # and 2 for the rollouts' GPU
    ("reference", ["method=dapo", "reference=fixed"], ["rpg.reference.mode=fixed"]),
    ("dataclasses", [f"+{A}.kl_los_coef=1"], [A]),
    ("dataclasses", [f"{A}.policy_loss._target_=rpg.Nothing"], [A]),
    ("dataclasses", ["+algorithm.lamda=0.9"], ["algorithm"]),
    *(("dataclasses", [f"+{R}.{name}"], [R]) for name in ("min_p=0.1", "presence_penalty=1.0", "bad_words=[no]")),
]

AGGREGATION = f"{A}.loss_agg_mode"
# checks that warn, overrides, and what the warning says; None without a warning
WARNED: list[tuple[str, list[str], str | None]] = [
    ("aggregation_of_the_loss", ["method=sapo"], None),
    ("aggregation_of_the_loss", ["method=gspo", f"{AGGREGATION}=token-mean"], None),
    ("aggregation_of_the_loss", ["method=dr_grpo"], None),
    ("aggregation_of_the_loss", ["method=rpg"], None),
    ("aggregation_of_the_loss", ["method=rpg", f"{AGGREGATION}=seq-mean-token-sum-norm"], f"{A}.loss_scale_factor="),
    ("saving", [f"{A}.checkpoint.save_contents=[model,extra]"], "lacks optimizer"),
    ("one_update_a_batch", ["method=rpg", *ONE_UPDATE], f"{A}.ppo_mini_batch_size=16: is data.train_batch_size"),
    ("one_update_a_batch", ["schedule=async", "pi_old=recomputed", *ONE_UPDATE], "w is 1"),
    ("one_update_a_batch", ["method=rpg"], None),
    ("one_update_a_batch", ["method=grpo", *ONE_UPDATE], None),
    ("one_update_a_batch", ["method=rpg", f"{A}.ppo_epochs=2", *ONE_UPDATE], None),
    ("one_update_a_batch", ["reference=fixed", *ONE_UPDATE], None),
    ("one_update_a_batch", ["pi_old=behavior", *ONE_UPDATE], None),
    ("one_update_a_batch", ["optim=schedulefree", *ONE_UPDATE], None),
    ("groups_of_one", ["method=rpg", f"{R}.n=1"], f"{R}.n=1: with algorithm.adv_estimator=rpg"),
    ("groups_of_one", ["method=grpo", f"{R}.n=1"], f"{R}.n=1: with algorithm.adv_estimator=grpo"),
    ("groups_of_one", ["method=rpg", f"{R}.n=1", "algorithm.adv_estimator=rpg_batchmean"], None),
    ("groups_of_one", ["method=rfpp", f"{R}.n=1"], None),
    ("saving", ["trainer.save_freq=-1"], "trainer.save_freq=-1: saves no checkpoint"),
    ("saving", ["trainer.save_freq=0"], "trainer.save_freq=0: saves no checkpoint"),
    ("saving", ["trainer.save_freq=-1", "trainer.val_only=true"], None),
    ("separate_rollouts", [*SEPARATE, "algorithm.adv_estimator=rpg_batchmean"], "takes its mean over"),
    ("kl_of_stale_responses", [*RESPONSES, "pi_old=decoupled_sequence"], f"{IS}_threshold=2.0: cuts weights"),
    ("kl_of_stale_responses", [*RESPONSES, "pi_old=decoupled_sequence", f"{IS}_threshold=100"], None),
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
    (["rpg.reference.mode=every_k"], ["rpg.reference.every_k=null"]),
    (["reference=every_k", "rpg.reference.kl_target=0.1"], []),
    ([f"+{A}.policy_loss.clip_scope=all"], []),
    (["rpg.max_num_seqs.qwen2_7b=0"], []),
    ([f"{DIRECTORY}=/tmp/" + 256 * "x"], []),
    (["trainer.experiment_name=a/b"], []),
    (["+trainer.totl_training_steps=3"], []),
    (["+data.max_promt_length=77"], []),
    (["reward.reward_kwargs=5"], []),
    (["+rpg.reference.every=3"], []),
    (["data.return_raw_chat=7"], []),
]
