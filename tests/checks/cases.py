"""For every check that pre-flight asks: overrides that it refuses, and the settings that it blames.

{toy} is the directory of the toy run; it holds what test_checks.py puts there.
"""

A = "actor_rollout_ref.actor"
L = f"{A}.policy_loss.loss_mode"
M = "actor_rollout_ref.model"
R = "actor_rollout_ref.rollout"
BUCKET = f"{R}.checkpoint_engine.update_weights_bucket_megabytes"
KWARGS = "reward.custom_reward_function.reward_kwargs"
CORRECTION = "algorithm.rollout_correction"
RS = f"{CORRECTION}.rollout_rs"
LIMIT = f"{RS}_threshold=2.0"
LOG_PROBS = f"{R}.calculate_log_probs=true"
SEPARATE = ["schedule=separate", "pi_old=decoupled"]
CASES: dict[str, list[tuple[list[str], list[str]]]] = {
    "types and ranges": [
        ([f"{R}.n=abc", "data.train_batch_size=2.5"], ["data.train_batch_size=2.5", f"{R}.n='abc'"]),
        ([f"{A}.optim.lr=nan"], [f"{A}.optim.lr=nan"]),
        (["trainer.resume_mode=resum"], ["trainer.resume_mode='resum'"]),
        (["data.val_files=[]"], ["data.val_files=[]"]),
        ([f"{A}.clip_ratio_c=1.0"], [f"{A}.clip_ratio_c=1.0"]),
        ([f"{A}.clip_ratio_low=-0.2", f"{A}.clip_ratio_high=-0.1"],
         [f"{A}.clip_ratio_low=-0.2", f"{A}.clip_ratio_high=-0.1"]),
        (["trainer.use_v1=false"], ["trainer.use_v1=false"]),
        (["rpg.time_limit=2h"], ["rpg.time_limit='2h'"]),
        (["trainer.logger=[console,tensorbord]"], ["trainer.logger=[console,tensorbord]"]),
        (["~trainer.nnodes"], ["trainer.nnodes"]),
        (["rpg.reference=null"], ["rpg.reference=null"]),
        ([f"+{A}.policy_loss.clip_scope=all"], [f"{A}.policy_loss.clip_scope='all'"]),
        (["rpg.max_num_seqs.qwen2_7b=0"], ["rpg.max_num_seqs={'qwen2_7b': 0, 'qwen3_4b': 248}"]),
        (["trainer.default_local_dir=/tmp/" + 256 * "x"], ["trainer.default_local_dir='/tmp/" + 256 * "x" + "'"]),
        (["trainer.experiment_name=a/b"], ["trainer.experiment_name='a/b'"]),
        (["+trainer.totl_training_steps=3"], ["trainer.totl_training_steps=3"]),
        (["+data.max_promt_length=77"], ["data.max_promt_length=77"]),
        (["reward.reward_kwargs=5"], ["reward.reward_kwargs=5"]),
        (["+rpg.reference.every=3"], ["rpg.reference.every=3"]),
        (["data.return_raw_chat=7"], ["data.return_raw_chat=7"]),
    ],
    "mini-batches": [
        ([f"{A}.ppo_mini_batch_size=24"], [f"{A}.ppo_mini_batch_size=24"]),
    ],
    "ranks": [
        (["trainer.n_gpus_per_node=3"], [f"{A}.ppo_mini_batch_size=16"]),
        ([f"{A}.ulysses_sequence_parallel_size=2"], [f"{A}.ulysses_sequence_parallel_size=2"]),
    ],
    "rollout replicas": [
        ([f"{R}.tensor_model_parallel_size=3"], [f"{R}.tensor_model_parallel_size=3"]),
    ],
    "rollout's sockets": [
        (["trainer.v1.trainer_mode=separate_async", f"{R}.checkpoint_engine.custom_backend_module=null"],
         [f"{R}.checkpoint_engine.custom_backend_module=null"]),
        ([f"{M}.external_lib=null", f"{R}.checkpoint_engine.custom_backend_module=rpg.verl_plugin.rollout"],
         [f"{M}.external_lib=null"]),
    ],
    "token budgets": [
        ([f"{R}.max_model_len=111"], [f"{R}.max_model_len=111"]),
        ([f"{A}.ppo_max_token_len_per_gpu=111"],
         [f"{A}.ppo_max_token_len_per_gpu=111", f"{R}.log_prob_max_token_len_per_gpu=111"]),
        ([f"{R}.enable_chunked_prefill=false", f"{R}.max_num_batched_tokens=64"], [f"{R}.max_num_batched_tokens=64"]),
    ],
    "context": [
        ([f"{M}.path=Qwen/Qwen2.5-Math-7B", "data.max_response_length=4096"], [f"{R}.max_model_len=4176"]),
    ],
    "overlong shaping": [
        (["reward.reward_kwargs.overlong_buffer_cfg.len=32"], ["reward.reward_kwargs.overlong_buffer_cfg.len=32"]),
        (["reward.reward_manager.name=naive"], ["reward.reward_manager.name=naive"]),
        (["reward.reward_kwargs.max_resp_len=64"], ["reward.reward_kwargs.max_resp_len=64"]),
        (["~reward.reward_kwargs.overlong_buffer_cfg.log"], ["reward.reward_kwargs.overlong_buffer_cfg.log=null"]),
    ],
    "dynamic sampling": [
        (["algorithm.filter_groups.enable=true", f"{R}.n=1"], [f"{R}.n=1"]),
        (["algorithm.filter_groups={enable: true, metric: null}"], ["algorithm.filter_groups.metric=null"]),
        (["algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=accuracy"],
         ["algorithm.filter_groups.metric=accuracy"]),
    ],
    "resumption": [
        (["trainer.resume_mode=resume_path"], ["trainer.resume_from_path=null"]),
        (["trainer.resume_from_path=/x/global_step_1"], ["trainer.resume_from_path=/x/global_step_1"]),
    ],
    "validation": [
        (["trainer.val_only=true", "trainer.val_before_train=false"], ["trainer.val_before_train=false"]),
    ],
    "loss name": [
        ([f"{L}=rpg_rf_urlk_clip_ppo"], [f"{L}=rpg_rf_urlk_clip_ppo"]),
    ],
    "estimator name": [
        (["algorithm.adv_estimator=rpgg"], ["algorithm.adv_estimator=rpgg"]),
    ],
    "Z_old": [
        ([f"{L}=rpg_fkl", f"+{A}.policy_loss.z_old=2.0"], [f"{A}.policy_loss.z_old=2.0"]),
    ],
    "clip of the loss": [
        ([f"+{A}.policy_loss.clip_scope=none"], [f"{A}.policy_loss.clip_scope=none"]),
        (["method=rpg", f"+{A}.policy_loss.clip_branch=psi"], [f"{A}.policy_loss.clip_branch=psi"]),
        (["method=dapo", f"+{A}.policy_loss.clip_branch=psi"], [f"{A}.policy_loss.clip_branch=psi"]),
    ],
    "KL counted once": [
        ([f"{A}.use_kl_loss=true"], [f"{A}.use_kl_loss=true"]),
        (["algorithm.use_kl_in_reward=true"], ["algorithm.use_kl_in_reward=true"]),
    ],
    "beta reaches the loss": [
        (["method=dapo", f"{L}=rpg_urkl"], [f"{L}=rpg_urkl"]),
    ],
    "reference": [
        (["rpg.reference.mode=every_k"], ["rpg.reference.every_k=null"]),
        (["reference=every_k", "rpg.reference.kl_target=0.1"], ["rpg.reference.kl_target=0.1"]),
        (["reference=fixed", f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp", "actor_rollout_ref.ref.strategy=fsdp"]),
        (["reference=every_k", f"{M}.lora_rank=8"], [f"{M}.lora_rank=8"]),
        (["reference=fixed", f"{M}.lora_rank=8", f"{M}.lora_adapter_path=/a"], [f"{M}.lora_adapter_path=/a"]),
        (["reference=fixed", "actor_rollout_ref.ref.fsdp_config.fsdp_size=1"],
         ["actor_rollout_ref.ref.fsdp_config.fsdp_size=1"]),
        (["reference=fixed", f"{A}.use_dynamic_bsz=false", f"{A}.ppo_micro_batch_size_per_gpu=4",
          f"{R}.log_prob_micro_batch_size_per_gpu=4"],
         ["actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=null"]),
    ],
    "LoRA": [
        ([f"{M}.lora.rank=8"], [f"{M}.lora.rank=8"]),
        ([f"{M}.lora_adapter_path=/a"], [f"{M}.lora_adapter_path=/a"]),
        (["schedule=separate", "pi_old=behavior", f"{M}.lora_rank=8"], [f"{M}.lora_rank=8"]),
    ],
    "pi_old": [
        (["rpg.pi_old=behavior"], ["rpg.pi_old=behavior"]),
        (["pi_old=decoupled", f"{CORRECTION}.rollout_is=null"], ["rpg.pi_old=decoupled"]),
        ([f"{CORRECTION}.bypass_mode=true", f"{CORRECTION}.rollout_is=token"], [f"{CORRECTION}.rollout_is=token"]),
        (["pi_old=behavior", f"{R}.calculate_log_probs=false"], [f"{R}.calculate_log_probs=false"]),
        (["pi_old=decoupled", f"{CORRECTION}.rollout_is_threshold=null"], [f"{CORRECTION}.rollout_is_threshold=null"]),
        (["pi_old=decoupled", "method=dapo", f"{L}=bypass_mode"], [f"{L}=bypass_mode"]),
    ],
    "rejection criteria": [
        ([f"{RS}=token_k4", LIMIT, LOG_PROBS], [f"{RS}=token_k4"]),
        ([f"{RS}=token_k1", f"{RS}_threshold=0.5", LOG_PROBS], [f"{RS}_threshold=0.5"]),
        ([f"{RS}='token_k1,token_k3'", f"{RS}_threshold='2,2,2'", LOG_PROBS], [f"{RS}_threshold=2,2,2"]),
    ],
    "rejection sampling": [
        ([f"{RS}=token_k1", LOG_PROBS], [f"{RS}_threshold=null"]),
        ([f"{RS}=token_k1", LIMIT, f"{R}.calculate_log_probs=false"], [f"{R}.calculate_log_probs=false"]),
        (["pi_old=behavior", f"{RS}=token_k1", LIMIT], [f"{RS}=token_k1"]),
    ],
    "asynchronous pi_old": [
        (["schedule=async"], ["trainer.v1.trainer_mode=colocate_async"]),
    ],
    "staleness": [
        (["schedule=async", "pi_old=behavior", "trainer.v1.colocate_async.num_warmup_batches=7.5"],
         ["trainer.v1.colocate_async.num_warmup_batches=7.5"]),
    ],
    "separate rollouts": [
        ([*SEPARATE, f"{R}.n_gpus_per_node=3", f"{R}.tensor_model_parallel_size=2"], [f"{R}.n_gpus_per_node=3"]),
        ([*SEPARATE, f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp"]),
        ([*SEPARATE, "reference=fixed", "actor_rollout_ref.hybrid_engine=false"],
         ["actor_rollout_ref.hybrid_engine=false"]),
    ],
    "schedule-free": [
        (["optim=schedulefree", f"{A}.optim.optimizer=AdamW"], [f"{A}.optim.optimizer=AdamW"]),
        (["optim=schedulefree", f"{A}.optim.lr_warmup_steps=10"], [f"{A}.optim.lr_warmup_steps=10"]),
        ([f"{A}.optim.optimizer=AdamWScheduleFree"], [f"{A}.optim.optimizer=AdamWScheduleFree"]),
    ],
    "judge": [
        ([f"+{KWARGS}.boxed_fallback=true"], [f"{KWARGS}.boxed_fallback=True"]),
        ([f"+{KWARGS}.time_limit=0"], [f"{KWARGS}.time_limit=0"]),
        ([f"+{KWARGS}.jugde=release"], [f"{KWARGS}.jugde=release"]),
        (["reward.custom_reward_function.path={toy}/mine.py"], [f"{KWARGS}.judge=release"]),
    ],
    "reward function": [
        (["reward.custom_reward_function.path=/nowhere/mine.py"],
         ["reward.custom_reward_function.path=/nowhere/mine.py"]),
        (["reward.custom_reward_function.path=pkg://no.such.module"],
         ["reward.custom_reward_function.path=pkg://no.such.module"]),
        (["reward.custom_reward_function.name=compute"], ["reward.custom_reward_function.name=compute"]),
        (["reward.custom_reward_function.path={toy}/train.parquet"],
         ["reward.custom_reward_function.path={toy}/train.parquet"]),
    ],
    "weight bucket": [
        ([f"{M}.path=Qwen/Qwen3-4B"], [f"{BUCKET}=128"]),
        ([f"{M}.path=Qwen/Qwen3-4B", f"{BUCKET}=1483"], [f"{BUCKET}=1483"]),
    ],
    "devices": [
        (["trainer.nnodes=2"], ["trainer.nnodes=2"]),
        (["ray_kwargs.ray_init.num_gpus=0"], ["trainer.n_gpus_per_node=1"]),
        (["ray_kwargs.ray_init.num_gpus=null", "trainer.n_gpus_per_node=8"], ["trainer.n_gpus_per_node=8"]),
    ],
    "flash attention": [
        ([f"{M}.override_config.attn_implementation=flash_attention_2"],
         [f"{M}.override_config.attn_implementation=flash_attention_2"]),
    ],
    "directories": [
        (["trainer.default_local_dir={toy}/train.parquet/run"], ["trainer.default_local_dir={toy}/train.parquet/run"]),
        (["trainer.default_local_dir={toy}/$HOME"], ["trainer.default_local_dir={toy}/$HOME"]),
    ],
    "checkpoint": [
        (["trainer.resume_mode=resume_path", "trainer.resume_from_path=/nowhere/global_step_1"],
         ["trainer.resume_from_path=/nowhere/global_step_1"]),
        (["trainer.resume_mode=resume_path", "trainer.resume_from_path={toy}/model"],
         ["trainer.resume_from_path={toy}/model"]),
        (["trainer.resume_mode=resume_path", "trainer.resume_from_path={toy}/global_step_1"],
         ["trainer.resume_from_path={toy}/global_step_1"]),
        (["trainer.resume_mode=resume_path", "trainer.resume_from_path={toy}/cut/global_step_4"],
         ["trainer.resume_from_path={toy}/cut/global_step_4"]),
        (["trainer.default_local_dir={toy}/resumed"], ["trainer.default_local_dir={toy}/resumed"]),
        (["trainer.default_local_dir={toy}/cut"], ["trainer.default_local_dir={toy}/cut"]),
    ],
    "data files": [
        (["data.train_files=/nowhere/a.parquet"], ["data.train_files=/nowhere/a.parquet"]),
        (["data.val_files={toy}"], ["data.val_files={toy}"]),
        (["data.val_files={toy}/bad.parquet"], ["data.val_files={toy}/bad.parquet"]),
        (["data.train_files={toy}/other.parquet"], ["data.train_files={toy}/other.parquet"]),
        (["data.train_files={toy}/empty.parquet"], ["data.train_files={toy}/empty.parquet"]),
        (["data.prompt_key=question"], ["data.train_files={toy}/train.parquet", "data.val_files={toy}/test.parquet"]),
    ],
    "data sources": [
        (["data.val_files={toy}/riddles.parquet"], ["data.val_files={toy}/riddles.parquet"]),
    ],
    "enough rows": [
        (["data.train_batch_size=80"], ["data.train_batch_size=80"]),
    ],
    "prompts fit": [
        (["data.max_prompt_length=10"], ["data.max_prompt_length=10"]),
    ],
    "model directory": [
        ([f"{M}.path=/nowhere/model"], [f"{M}.path=/nowhere/model"]),
        ([f"{M}.path={{toy}}/mine.py"], [f"{M}.path={{toy}}/mine.py"]),
    ],
    "registered with verl": [
        ([f"{L}=gsp"], [f"{L}=gsp"]),
        (["algorithm.adv_estimator=grpp"], ["algorithm.adv_estimator=grpp"]),
        (["reward.reward_manager.name=dap", "reward.reward_kwargs.overlong_buffer_cfg.enable=false"],
         ["reward.reward_manager.name=dap"]),
        ([*SEPARATE, f"{R}.checkpoint_engine.backend=ncl"], [f"{R}.checkpoint_engine.backend=ncl"]),
    ],
    "loss sees the reference": [
        (["method=dapo", "reference=fixed"], ["rpg.reference.mode=fixed"]),
    ],
    "verl's dataclasses": [
        ([f"+{A}.kl_los_coef=1"], [f"{A}.kl_los_coef=1"]),
        ([f"{A}.policy_loss._target_=rpg.Nothing"], [f"{A}.policy_loss._target_=rpg.Nothing"]),
        (["+algorithm.lamda=0.9"], ["algorithm.lamda=0.9"]),
    ],
    "verl's own validation": [
        ([f"{A}.use_dynamic_bsz=false"], [A]),
        ([f"{M}.lora_rank=100000"], ["verl's validate_config"]),
    ],
}  # fmt: skip
