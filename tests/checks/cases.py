"""For every preflight check: overrides that it rejects, and the settings that it names.

{toy} is the toy run's directory with the files of test_checks.py.
"""

A = "actor_rollout_ref.actor"
L = f"{A}.policy_loss.loss_mode"
M = "actor_rollout_ref.model"
R = "actor_rollout_ref.rollout"
F = f"{A}.fsdp_config"
REF = "actor_rollout_ref.ref"
UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
ULYSSES = "ulysses_sequence_parallel_size"
FLASH = f"{M}.override_config.attn_implementation=flash_attention_2"
RESUME, FROM = "trainer.resume_mode=resume_path", "trainer.resume_from_path"
DIRECTORY = "trainer.default_local_dir"
KWARGS = "reward.custom_reward_function.reward_kwargs"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
CORRECTION = "algorithm.rollout_correction"
IS, RS = f"{CORRECTION}.rollout_is", f"{CORRECTION}.rollout_rs"
LIMIT = f"{RS}_threshold=2.0"
FILTER = "algorithm.filter_groups.enable=true"
TRUNCATED = "rpg.truncated_sampling=true"
LOG_PROBS = f"{R}.calculate_log_probs=true"
RESPONSES = ["method=rpg", "reference=fixed", "schedule=async", "pi_old=decoupled", "rpg.kl_scope=response"]
ONE_UPDATE = ["data.train_batch_size=16", f"{A}.ppo_mini_batch_size=16"]
# check: its cases; a case is the overrides, of which the last is named, or (overrides, what is named)
CASES: dict[str, list] = {
    "without_effect": [
        [f"{A}.clip_ratio=0.3"], [f"+{R}.repetition_penalty=1.1"], ["reward.custom_reward_function.path=/mine.py"],
        [f"{A}.optim.lr_warmup_steps_ratio=0.1"], [f"{M}.lora_adapter_path=/a"],
        [f"{A}.optim.warmup_style=cosine"], [f"{R}.do_sample=false"],
        ["distillation.enabled=true"], [f"{R}.response_length=16"],
        [f"{A}.kl_loss_coef=0.01"], ["method=kl_in_reward", f"{A}.kl_loss_type=k3"], [f"{IS}_threshold=5"],
        ["trainer.v1.colocate_async.num_warmup_batches=3"], ["method=dapo", f"{A}.tau_pos=2.0"],
        ["algorithm.gamma=0.9"], ["algorithm.norm_adv_by_std_in_grpo=false"], [f"{M}.lora_alpha=7"],
        [f"{M}.target_modules=[q_proj]"], ["custom_reward_function.path=/mine.py"],
        ["reward_model.reward_manager=naive"], ["reward.reward_model.enable=true"],
        ["data.truncation=right"], [f"{A}.policy_loss.ppo_kl_coef=0.5"], [f"{A}.optim.num_cycles=1.5"],
        [f"{A}.grad_clip=0.5"], ["algorithm.use_pf_ppo=true"], [f"{R}.multi_turn.enable=true"],
        ["pi_old=behavior", f"{CORRECTION}.loss_type=reinforce"],
        [f"{A}.policy_loss.dro_beta=0.5"], [f"{A}.optim.total_training_steps=900"],
        [f"{A}.qat.enable=true"], [f"{M}.hf_config_path=/c"], [f"{M}.lora.alpha=5"], ["data.tokenizer=/t"],
        ["trainer.v1.sampler.max_off_policy_threshold=3"], [f"{R}.full_determinism=true"], [f"{F}.dtype=float32"],
        [f"{A}.data_loader_seed=3"],
        ["method=kl_in_reward", "algorithm.kl_ctrl.type=adaptive"], [f"{A}.checkpoint.async_save=true"],
        ["reward.reward_kwargs.max_resp_len=24"], ["trainer.v1.separate_async.parameter_sync_step=2"],
        ["+algorithm.gdpo_reward_keys=[acc]"], ["reward.reward_manager.module.path=/m.py"], [f"{A}.rollout_n=4"],
        [f"+{A}.use_rollout_log_probs=true"], [f"{A}.optim.zero_indexed_step=false"],
        ["algorithm.adv_estimator=gdpo", "algorithm.norm_adv_by_std_in_grpo=false"],
        [f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a", f"{M}.lora_alpha=7"],
        ["actor_rollout_ref.nccl_timeout=3600"], [f"{R}.over_sample_rate=0.1"], ["trainer.esi_redundant_time=60"],
        [f"{R}.agent.custom_async_server.path=/s.py"], ["reward.sandbox_fusion.url=http://s"], [f"{R}.nnodes=1"],
        ["method=kl_in_reward", "algorithm.kl_ctrl.target_kl=0.05"], ["trainer.v1.sampler.custom_sampler.path=/s.py"],
        ["trainer.balance_batch=false"], [f"{A}.freeze_vision_tower=true"],
        [f"{M}.use_shm=true"], ["data.use_shm=true"],
    ],
    "mini_batches": [
        [f"{A}.ppo_mini_batch_size=24"], (["trainer.n_gpus_per_node=3"], [f"{A}.ppo_mini_batch_size=16"]),
        [f"{A}.use_dynamic_bsz=false", f"{A}.ppo_micro_batch_size_per_gpu=3"],
        [f"{R}.log_prob_use_dynamic_bsz=false", f"{R}.log_prob_micro_batch_size_per_gpu=5"],
    ],
    "ulysses": [
        ["reference=fixed", f"{REF}.fsdp_config.{ULYSSES}=2"], [FLASH, f"{F}.{ULYSSES}=2"],
    ],
    "token_budgets": [
        [f"{R}.max_model_len=111"], [f"+{R}.engine_kwargs.vllm.max_model_len=111"],
        ["reference=fixed", f"{REF}.log_prob_max_token_len_per_gpu=111"],
        ([f"{A}.ppo_max_token_len_per_gpu=111"], [f"{A}.ppo_max_token_len_per_gpu=111",
                                                  f"{R}.log_prob_max_token_len_per_gpu=111"]),
    ],
    "rewards_and_filter": [
        [f"{OVERLONG}.len=32"], ["reward.reward_manager.name=naive"],
        [FILTER, f"{R}.n=1"], [FILTER, "algorithm.filter_groups.metric=accuracy"],
    ],
    "checkpoints_and_logs": [
        ([RESUME], [f"{FROM}=null"]), [f"{FROM}=/x/global_step_1"],
        ([f"{A}.checkpoint.save_contents=[extra]"], [f"{A}.checkpoint.{n}_contents=[extra]" for n in ("save", "load")]),
        ["trainer.logger=[console,wandb]"], ["trainer.val_only=true", "trainer.val_before_train=false"],
        [f"{R}.val_kwargs.do_sample=false"],
    ],
    "read_by_the_loss": [
        ["method=sapo", f"{A}.clip_ratio_low=0.1"], ["method=null", f"{L}=kl_cov", f"{A}.clip_ratio_low=0.1"],
        (["method=null", f"{L}=sapo", f"{A}.loss_agg_mode=seq-mean-token-sum"],
         [f"{A}.loss_agg_mode=seq-mean-token-sum"]), ["method=gspo", f"{A}.clip_ratio_c=5"],
        (["method=null", f"{L}=rpg_urkl"], [f"{L}=rpg_urkl"]),
        [f"{L}=rpg_fkl", f"+{A}.policy_loss.z_old=2.0"], [f"+{A}.policy_loss.clip_scope=none"],
        ["method=rpg_rf", f"{A}.clip_ratio_low=0.1"], ["method=rpg_rf_clip_hard", f"{A}.clip_ratio_c=3"],
        ["method=rpg_rf", "rpg.kl_scope=response", f"+{A}.policy_loss.z_old=2.0"],
        ["method=rpg_rf", "reference=fixed", "rpg.kl_scope=response", "rpg.rho_bound=5"],
        ["method=rpg_rf", "rpg.divergence=ufkl", "rpg.kl_scope=response"], ["rpg.reference.kl_ema=0.5"],
        ["method=null", f"{L}=geo_mean", "clip=0.2_0.28", f"{A}.loss_agg_mode=seq-mean-token-sum"],
        [f"{A}.use_kl_loss=true"], ["algorithm.use_kl_in_reward=true"],
    ],
    "reference": [
        ["reference=every_k", f"{M}.lora_rank=8"], ["method=grpo", f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a"],
        (["method=dapo", "reference=fixed"], ["rpg.reference.mode=fixed"]),
        (["pi_old=behavior", "reference=kl_target"], ["rpg.reference.mode=kl_target"]),
    ],
    "updates": [["optim=schedulefree", f"{A}.optim.lr_warmup_steps=10"]],
    "corrections": [
        ["pi_old=decoupled", f"{IS}_threshold=null"],
        [LIMIT, f"{R}.calculate_log_probs=false", f"{RS}=token_k1"],
        ["method=rpg", "reference=fixed", "rpg.kl_scope=response", LOG_PROBS, LIMIT, f"{RS}=token_k1"],
        ["pi_old=behavior", LIMIT, f"{RS}=token_k1"], [LIMIT],
        ["~pi_old", f"{R}.calculate_log_probs=false", f"{IS}=token"],
    ],
    "recomputed_pi_old": [
        (["schedule=async"], ["trainer.v1.trainer_mode=colocate_async"]), [f"{R}.quantization=fp8"],
    ],
    "stale_responses": [
        RESPONSES, ([*RESPONSES, "pi_old=decoupled_sequence", f"{IS}_threshold=2.0"], ["rpg.kl_scope=response"]),
        ["schedule=async", "pi_old=behavior", "trainer.v1.colocate_async.num_warmup_batches=7.5"],
    ],
    "separate_rollouts": [
        (["schedule=separate", "pi_old=decoupled", "reference=every_k"], ["rpg.reference.mode=every_k"]),
        ["schedule=separate", "pi_old=behavior", f"{M}.lora_rank=8"],
    ],
    "sampled_distribution": [
        [f"{R}.top_p=0.8"], ["method=grpo", f"{R}.top_k=50"],
        [f"+{R}.engine_kwargs.vllm.logits_processors=[mine]"],
        ["pi_old=decoupled", f"{R}.temperature=0.8", f"{R}.logprobs_mode=raw_logprobs"],
        ["pi_old=behavior", f"+{R}.engine_kwargs.vllm.logprobs_mode=processed_logits"],
        [LOG_PROBS, f"{R}.top_p=0.9", TRUNCATED, f"{R}.logprobs_mode=raw_logprobs"],
    ],
    "data_files": [
        ["data.train_files=/nowhere/a.parquet"], ["data.val_files={toy}/bad.parquet"],
        ["data.train_files={toy}/other.parquet"], ["data.train_files={toy}/empty.parquet"],
        ["data.val_files={toy}/riddles.parquet"], ["data.train_batch_size=80"],
        ["trainer.total_epochs=2", "trainer.total_training_steps=9"],
    ],
    "model_directory": [[f"{M}.path=/nowhere/model"]],
    "trained_as_it_is": [[f"{M}.path={{toy}}/gptq"], [f"{M}.path={{toy}}/granite", f"{M}.use_fused_kernels=true"]],
    "devices": [
        (["trainer.nnodes=2"], ["trainer.n_gpus_per_node=1"]),
        ["ray_kwargs.ray_init.num_gpus=null", "trainer.n_gpus_per_node=8"],
        (["ray_kwargs.ray_init.num_gpus=0"], ["trainer.n_gpus_per_node=1"]),
    ],
    "registered": [[f"{L}=gsp"], ["algorithm.adv_estimator=grpp"]],
    "cpus": [
        ["ray_kwargs.ray_init.num_cpus=4"],  # 1 + 1 unit + 3 a GPU
        (["ray_kwargs.ray_init.num_cpus=11", f"{UNITS}=8"], ["ray_kwargs.ray_init.num_cpus=11"]),
        ["schedule=separate", "pi_old=decoupled", "ray_kwargs.ray_init.num_cpus=6"],  # and 2 for the rollouts' GPU
    ],
    "prompts_fit": [["data.max_prompt_length=10"]],
    "truths": [
        (["data.val_files={toy}/letters.parquet"], [f"{KWARGS}.judge=release"]),
        ([f"+{KWARGS}.jugde=release"], [f"{KWARGS}={{judge: release, jugde: release}}"]),
    ],
    "reward_trial": [(["judge=own", "rpg.reward=/nowhere/mine.py"], [f"{KWARGS}.file=/nowhere/mine.py"])],
    "checkpoint": [
        [RESUME, f"{FROM}=/nowhere/global_step_1"], [RESUME, f"{FROM}={{toy}}/cut/global_step_4"],
        [f"{DIRECTORY}={{toy}}/resumed"], [f"{DIRECTORY}={{toy}}/cut"],
    ],
}  # fmt: skip

# checks that warn: overrides, and what the warning says; None without a warning
WARNED: list[tuple[str, list[str], str | None]] = [
    ("updates", ["method=rpg", f"{A}.loss_agg_mode=seq-mean-token-sum-norm"], f"{A}.loss_scale_factor="),
    ("checkpoints_and_logs", [f"{A}.checkpoint.save_contents=[model,extra]"], "lacks optimizer"),
    ("updates", ["method=rpg", *ONE_UPDATE], f"{A}.ppo_mini_batch_size=16: is data.train_batch_size"),
    ("updates", ["method=grpo", *ONE_UPDATE], None),
    ("updates", ["method=rpg", f"{A}.ppo_epochs=2", *ONE_UPDATE], None),
    ("updates", ["pi_old=behavior", *ONE_UPDATE], None),
    ("updates", ["optim=schedulefree", *ONE_UPDATE], None),
    ("without_effect", [f"+{M}.override_config.rope_theta=1e6"], f"{M}.override_config.rope_theta"),
    ("without_effect", [f"+{M}.override_config.a=1", f"+{R}.engine_kwargs.vllm.hf_overrides={{a:1}}"], None),
    ("updates", [f"{F}.model_dtype=bf16"], f"{F}.model_dtype=bf16: with {A}.optim.lr="),
    ("updates", [f"{F}.model_dtype=fp16"], f"{F}.model_dtype=fp16: with {A}.optim.lr="),
    ("updates", [f"{F}.model_dtype=bf16", f"{M}.lora_rank=8"], None),
    ("updates", ["method=null", f"{L}=geo_mean"], f"{L}=geo_mean: sums the means of micro-batches"),
    ("updates", ["method=rpg", f"{R}.n=1"], f"{R}.n=1: with algorithm.adv_estimator=rpg"),
]

# overrides of which no RunConfig can be made
TYPES: list[tuple[list[str], list[str]]] = [
    ([f"{R}.n=abc", "data.train_batch_size=2.5"], [f"{R}.n='abc'", "data.train_batch_size=2.5"]),
    ([f"{A}.optim.lr=nan"], []),
    ([f"{A}.clip_ratio_c=1.0"], []),
    ([f"{A}.ppo_mini_batch_size=0"], []),
    (["trainer.resume_mode=atuo"], []),
    (["trainer.use_v1=false"], []),
    (["trainer.logger=5"], []),
    (["rpg.reference.mode=every_k"], ["rpg.reference.every_k=null"]),
    ([f"+{A}.policy_loss.clip_scope=all"], []),
    (["+trainer.totl_training_steps=3"], []),
    (["reward.reward_manager=5"], []),
    ([f"{R}.temperature=0"], []),
    ([f"{A}.optim.lr_warmup_steps=0.1"], []),
    ([f"{A}.optim.lr_warmup_steps_ratio=5"], []),
    ([f"{OVERLONG}.penalty_factor=-1"], []),
    (["+reward.judge=verified"], []),
    ([f"{DIRECTORY}='/tmp/$HOME'"], []),
    ([f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp", f"{REF}.strategy=fsdp"]),
]
