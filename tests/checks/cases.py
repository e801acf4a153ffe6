"""For every check that pre-flight asks: overrides that it refuses, and what it says. docs/checks.md counts them.

{toy} is the directory of the toy run; it holds what test_checks.py puts there.
"""

A = "actor_rollout_ref.actor"
L = f"{A}.policy_loss.loss_mode"
M = "actor_rollout_ref.model"
R = "actor_rollout_ref.rollout"
BUCKET = f"{R}.checkpoint_engine.update_weights_bucket_megabytes"
KWARGS = "reward.custom_reward_function.reward_kwargs"
SCHEDULE_FREE = "optim=schedulefree"
CORRECTION = "algorithm.rollout_correction"
RS = f"{CORRECTION}.rollout_rs"
LIMIT = f"{RS}_threshold=2.0"
LOG_PROBS = f"{R}.calculate_log_probs=true"
SEPARATE = ["schedule=separate", "pi_old=decoupled"]

# of the others: the tests
ELSEWHERE = {
    "environment variables": "test_preflight.py: test_environment_variables",
    "verl's version": "test_verl_version.py: test_another_verl_is_refused",
    "ports": "test_preflight.py: test_busy_port",
    "W&B": "test_doctor.py: test_wandb",
    "builds for GPUs": "test_builds.py: test_the_cpu_environment_is_named",
    "cross-entropy": "test_builds.py: test_a_flash_attn_that_does_not_import",
    "rows": "test_doctor.py: test_data",
    "memory": "test_doctor.py: test_memory_against_a_device",
    "disk": "test_doctor.py: test_disk",
    "shared memory": "test_doctor.py: test_a_bucket_that_shared_memory_does_not_hold",
    "secrets": "test_secrets.py: test_a_secret_in_the_configuration",
    "remote code": "test_secrets.py: test_remote_code",
}
CASES: dict[str, list[tuple[list[str], list[str]]]] = {
    "types and ranges": [
        ([f"{R}.n=0"], [f"{R}.n=0: must be a whole number, at least 1"]),
        ([f"{R}.n=abc", "data.train_batch_size=2.5"], [f"{R}.n='abc'", "data.train_batch_size=2.5: must be a whole"]),
        ([f"{A}.optim.lr=nan"], [f"{A}.optim.lr=nan: must be a number, finite and at least 0"]),
        ([f"{A}.optim.lr=-1"], [f"{A}.optim.lr=-1: must be"]),
        (["trainer.total_training_steps=abc"], ["trainer.total_training_steps='abc'"]),
        (["trainer.resume_mode=resum"], ["trainer.resume_mode='resum': must be one of auto, disable, resume_path"]),
        (["data.val_files=[]"], ["data.val_files=[]: must be a parquet file or a list", "(TEST_FILE)"]),
        (["trainer.nnodes=-1"], ["trainer.nnodes=-1", "(NNODES sets it)"]),
        ([f"{A}.clip_ratio_c=null"], [f"{A}.clip_ratio_c=null: must be a number, finite and above 1"]),
        ([f"{A}.clip_ratio_c=1.0"], [f"{A}.clip_ratio_c=1.0"]),
        ([f"{A}.clip_ratio_low=-0.2", f"{A}.clip_ratio_high=-0.1"], ["clip_ratio_low=-0.2", "clip_ratio_high=-0.1"]),
        (["rpg.kl_coef=null"], ["rpg.kl_coef=null: must be a number"]),
        (["trainer.use_v1=false"], ["trainer.use_v1=false: must be true (the recipe runs verl's V1", "leave it out"]),
        (["trainer.use_v1=null"], ["trainer.use_v1=null: must be true"]),
        ([f"{CORRECTION}.rollout_rs=7"], [f"{CORRECTION}.rollout_rs=7: must be text"]),
        ([f"{CORRECTION}.rollout_rs_threshold=0"], ["rollout_rs_threshold=0: must be a number above 0"]),
        (["rpg.time_limit=2h"], ["rpg.time_limit='2h': must be a number", "(seconds)"]),
        (["rpg.time_limit='300'"], ["rpg.time_limit='300'"]),
        ([f"{R}.tensor_model_parallel_size=0"], ["tensor_model_parallel_size=0"]),
        (["trainer.logger=null"], ["trainer.logger=null: must be a list of console"]),
        (["trainer.logger=[console,tensorbord]"], ["trainer.logger=[console,tensorbord]: must be a list of console"]),
        (["trainer.default_local_dir=''"], ["trainer.default_local_dir='': must be a path of one line"]),
        (["~trainer.nnodes"], ["trainer.nnodes: is missing", "remove '~trainer.nnodes'"]),
        (["rpg.reference=null"], ["rpg.reference=null: must be a mapping"]),
        ([f"{A}.policy_loss.kl_coef=small"], ["policy_loss.kl_coef='small': must be a number", "1e-4"]),
        ([f"+{A}.policy_loss.clip_scope=all"], ["clip_scope='all': must be one of reward, regularized"]),
        ([f"+{A}.policy_loss.clip_branch=a"], ["clip_branch='a': must be one of psi, advantage"]),
        ([f"+{A}.policy_loss.z_old=0"], ["z_old=0: must be a number, finite and above 0"]),
        (["+rpg.env.a-b=x"], ["rpg.env={", "names of environment variables"]),
        (["trainer.default_local_dir=/tmp/" + 256 * "x"], ["names up to 255 bytes"]),
    ],
    "settings of rpg": [
        (["+rpg.kl_coeff=3"], ["rpg.kl_coeff=3: no such setting; did you mean rpg.kl_coef?"]),
        (["+rpg.reference.every=3"], ["rpg.reference.every=3: no such setting; did you mean rpg.reference.every_k?"]),
        (["+rpg.preload.erly=[]"], ["rpg.preload.erly=[]: no such setting; did you mean rpg.preload.early?"]),
    ],
    "mini-batches": [
        ([f"{A}.ppo_mini_batch_size=24"], [f"{A}.ppo_mini_batch_size=24: does not divide data.train_batch_size=32"]),
        ([f"{A}.ppo_mini_batch_size=64"], ["ppo_mini_batch_size=64: does not divide"]),
    ],
    "ranks": [
        (["trainer.n_gpus_per_node=3"], ["16: times actor_rollout_ref.rollout.n=8 are 128 answers, which 3 ranks do"]),
        ([f"{A}.ulysses_sequence_parallel_size=2"], ["ulysses_sequence_parallel_size=2: does not divide the 1 GPUs"]),
    ],
    "rollout replicas": [
        ([f"{R}.tensor_model_parallel_size=3"], ["tensor_model_parallel_size=3: does not divide the 1 GPUs"]),
    ],
    "rollout's sockets": [
        (
            ["trainer.v1.trainer_mode=separate_async", f"{R}.checkpoint_engine.custom_backend_module=null"],
            ["checkpoint_engine.custom_backend_module=null: must be rpg.verl_plugin.rollout with trainer.v1"],
        ),
        (
            [f"{M}.external_lib=null", f"{R}.checkpoint_engine.custom_backend_module=rpg.verl_plugin.rollout"],
            [f"{M}.external_lib=null: must be rpg.verl_plugin.rollout", "set both or neither"],
        ),
    ],
    "token budgets": [
        ([f"{R}.max_model_len=111"], [f"{R}.max_model_len=111: is below", "= 112 tokens"]),
        ([f"{A}.ppo_max_token_len_per_gpu=111"], ["ppo_max_token_len_per_gpu=111"]),
        ([f"{R}.enable_chunked_prefill=false", f"{R}.max_num_batched_tokens=64"], ["max_num_batched_tokens=64"]),
    ],
    "context": [
        (
            [f"{M}.path=Qwen/Qwen2.5-Math-7B", "data.max_response_length=4096"],
            [f"{R}.max_model_len=4176: is beyond the 4096 tokens that the model was made for"],
        ),
    ],
    "overlong shaping": [
        (["reward.reward_kwargs.overlong_buffer_cfg.len=32"], ["len=32: is not below data.max_response_length=32"]),
        (["reward.reward_manager.name=naive"], ["name=naive: does not know overlong_buffer_cfg"]),
        (["reward.reward_kwargs.max_resp_len=64"], ["max_resp_len=64: is not data.max_response_length=32"]),
        (["~reward.reward_kwargs.overlong_buffer_cfg.log"], ["overlong_buffer_cfg.log=null: is needed"]),
    ],
    "dynamic sampling": [
        (["algorithm.filter_groups.enable=true", f"{R}.n=1"], [f"{R}.n=1: with algorithm.filter_groups.enable"]),
        (["algorithm.filter_groups={enable: true, metric: null}"], ["filter_groups.metric=null: is needed"]),
    ],
    "resumption": [
        (["trainer.resume_mode=resume_path"], ["resume_from_path=null: is needed"]),
        (["trainer.resume_from_path=/x/global_step_1"], ["is not read with trainer.resume_mode=auto"]),
    ],
    "validation": [
        (["trainer.val_only=true", "trainer.val_before_train=false"], ["val_before_train=false", "nothing to do"]),
    ],
    "loss name": [
        ([f"{L}=rpg_rf_urlk_clip_ppo"], [f"{L}=rpg_rf_urlk_clip_ppo", "did you mean 'rpg_rf_urkl_clip_ppo'"]),
    ],
    "estimator name": [
        (["algorithm.adv_estimator=rpgg"], ["algorithm.adv_estimator=rpgg: is not registered; the nearest is rpg"]),
    ],
    "Z_old": [
        ([f"{L}=rpg_fkl", f"+{A}.policy_loss.z_old=2.0"], ["z_old=2.0: has no meaning for rpg_fkl"]),
    ],
    "shape of the clip": [
        ([f"+{A}.policy_loss.clip_scope=none"], ["clip_scope=none: is not read by", "choose a loss rpg_DIVERGENCE"]),
        (["method=rpg", f"+{A}.policy_loss.clip_branch=psi"], ["clip_branch=psi: is not read by", "=rpg_urkl"]),
        (["method=dapo", f"+{A}.policy_loss.clip_branch=psi"], ["clip_branch=psi: is not read by", "=vanilla"]),
    ],
    "KL counted once": [
        ([f"{A}.use_kl_loss=true"], [f"{A}.use_kl_loss=true: with {A}.kl_loss_coef=0.001", "twice", "kl_coef"]),
        (["algorithm.use_kl_in_reward=true"], ["use_kl_in_reward=true: with algorithm.kl_ctrl.kl_coef=0.001"]),
    ],
    "beta reaches the loss": [
        (["method=dapo", f"{L}=rpg_urkl"], [f"{L}=rpg_urkl: is set, and rpg.kl_coef=0.0001 does not reach it"]),
    ],
    "reference": [
        (["rpg.reference.mode=every_k"], ["rpg.reference.every_k=null: must be a whole number of optimizer steps"]),
        (["rpg.reference.mode=kl_target"], ["rpg.reference.kl_target=null: must be a number above 0"]),
        (["rpg.reference.every_k=3"], ["every_k=3: is not read with rpg.reference.mode=old; leave it out, or take"]),
        (["reference=every_k", "rpg.reference.kl_target=0.1"], ["kl_target=0.1: is not read with", "=kl_target"]),
        (["reference=fixed", f"{A}.strategy=fsdp"], [".strategy=fsdp: must be fsdp2 with rpg.reference.mode=fixed"]),
        (["reference=fixed", f"{M}.lora_rank=8"], [f"{M}.lora_rank=8: with rpg.reference.mode=fixed: with an adapter"]),
        (["reference=fixed", "actor_rollout_ref.ref.fsdp_config.fsdp_size=1"], ["fsdp_size=1: must be the actor's -1"]),
        (
            ["reference=fixed", f"{A}.use_dynamic_bsz=false", f"{A}.ppo_micro_batch_size_per_gpu=4",
             f"{R}.log_prob_micro_batch_size_per_gpu=4"],
            ["ref.log_prob_micro_batch_size_per_gpu=null: must be a number of sequences"],
        ),
    ],
    "pi_old": [
        (["rpg.pi_old=behavior"], ["rpg.pi_old=behavior: is not what", ".bypass_mode=false", "recomputed"]),
        (["pi_old=behavior", f"{CORRECTION}.bypass_mode=false"], ["rpg.pi_old=behavior: is not what"]),
        (["pi_old=decoupled", f"{CORRECTION}.rollout_is=null"], ["rpg.pi_old=decoupled: is not what"]),
        (["pi_old=recomputed", f"{CORRECTION}.rollout_is=token"], ["rpg.pi_old=recomputed: is not what", "decoupled"]),
        ([f"{CORRECTION}.bypass_mode=true", f"{CORRECTION}.rollout_is=token"], ["rollout_is=token: is not read with"]),
        (["pi_old=behavior", f"{R}.calculate_log_probs=false"], [f"{R}.calculate_log_probs=false: leaves pi_old"]),
        ([f"{CORRECTION}.bypass_mode=true", f"{R}.calculate_log_probs=false"], ["=false: leaves pi_old=behavior"]),
        ([f"{CORRECTION}.rollout_is=token", f"{R}.calculate_log_probs=false"], ["=false: leaves pi_old=decoupled"]),
        (["pi_old=decoupled", f"{CORRECTION}.rollout_is_threshold=null"], ["rollout_is_threshold=null: with"]),
        (["pi_old=decoupled", "method=dapo", f"{L}=bypass_mode"], [f"{L}=bypass_mode: does not multiply"]),
    ],
    "rejection sampling": [
        ([f"{RS}=token_k4", LIMIT, LOG_PROBS], [f"{RS}=token_k4: names token_k4, and verl's are token_k1, token_k2"]),
        ([f"{RS}='token_k1,seq_k1'", LIMIT, LOG_PROBS], ["names seq_k1, and verl's are", "did you mean seq_sum_k1?"]),
        ([f"{RS}=','", LIMIT, LOG_PROBS], ["names no criterion"]),
        ([f"{RS}=token_k1", LOG_PROBS], [f"{RS}_threshold=null: is needed by {RS}=token_k1; set one for all"]),
        ([f"{RS}=token_k1", f"{RS}_threshold=0.5", LOG_PROBS], ["for token_k1 must be LOWER_UPPER above 0, or UPPER"]),
        ([f"{RS}=token_k1", f"{RS}_threshold='2_0.5'", LOG_PROBS], ["must be LOWER_UPPER above 0", "it is 2_0.5"]),
        ([f"{RS}=token_k3", f"{RS}_threshold='0.5_2'", LOG_PROBS], ["for token_k3 must be one number above 0"]),
        ([f"{RS}=token_k3", f"{RS}_threshold=abc", LOG_PROBS], ["for token_k3 must be one number above 0"]),
        ([f"{RS}='token_k1,token_k3'", f"{RS}_threshold='2,2,2'", LOG_PROBS], ["one for each of token_k1, token_k3"]),
        (
            [f"{RS}=token_k1", LIMIT, f"{R}.calculate_log_probs=false"],
            [f"{R}.calculate_log_probs=false: leaves {RS}=token_k1 out", "set it to true"],
        ),
        (["pi_old=behavior", f"{RS}=token_k1", LIMIT], [f"{RS}=token_k1: is not read with {CORRECTION}.bypass_mode"]),
    ],
    "asynchronous pi_old": [
        (["schedule=async"], ["trainer_mode=colocate_async: trains on samples of older policies", "pi_old=behavior"]),
        (["schedule=separate"], ["trainer_mode=separate_async: trains on samples of older policies"]),
        (["trainer.v1.trainer_mode=colocate_async", "method=grpo_corrected"], ["rpg_urkl would weigh the moves"]),
    ],
    "staleness": [
        (
            ["schedule=async", "pi_old=behavior", "trainer.v1.colocate_async.num_warmup_batches=7.5"],
            ["num_warmup_batches=7.5: makes every response older than", "=8 when", "lower it to 7"],
        ),
    ],
    "separate rollouts": [
        ([*SEPARATE, "trainer.v1.separate_async.parameter_sync_step=4"], ["=4: times", "is not data.train_batch_size"]),
        ([*SEPARATE, f"{R}.nnodes=0"], [f"{R}.nnodes=0: leaves rollouts without GPUs"]),
        ([*SEPARATE, f"{R}.n_gpus_per_node=3", f"{R}.tensor_model_parallel_size=2"], ["=3: are no whole number"]),
        ([*SEPARATE, f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp: must be fsdp2 with trainer.v1"]),
        ([*SEPARATE, f"{R}.checkpoint_engine.backend=naive"], ["backend=naive: cannot reach rollouts"]),
        (
            [*SEPARATE, "reference=fixed", "actor_rollout_ref.hybrid_engine=false"],
            ["hybrid_engine=false: with trainer.v1.trainer_mode=separate_async puts the reference into another"],
        ),
    ],
    "checkpoint engine": [
        ([*SEPARATE, f"{R}.checkpoint_engine.backend=ncl"], ["backend=ncl: verl has no such"]),
    ],
    "schedule-free": [
        ([SCHEDULE_FREE, f"{A}.optim.optimizer=AdamW"], ["optimizer=AdamW: with optimizer_impl=schedulefree must be"]),
        ([SCHEDULE_FREE, f"{A}.strategy=fsdp"], [f"{A}.strategy=fsdp: with AdamWScheduleFree must be fsdp2"]),
        ([SCHEDULE_FREE, f"{A}.optim.lr_warmup_steps=10"], ["lr_warmup_steps=10: is verl's learning-rate scheduler"]),
        ([SCHEDULE_FREE, f"{A}.optim.lr_warmup_steps_ratio=0.1"], ["set lr_warmup_steps_ratio=0.0; the warm-up is"]),
        ([SCHEDULE_FREE, f"{A}.optim.lr_scheduler_type=cosine"], ["cosine: with AdamWScheduleFree must be constant"]),
        ([f"{A}.optim.optimizer=AdamWScheduleFree"], ["needs optimizer_impl=schedulefree, and it is torch.optim"]),
    ],
    "judge": [
        ([f"{KWARGS}.judge=strict"], [f"{KWARGS}.judge=strict: is not known; choices: release, verified"]),
        ([f"{KWARGS}.judge=null"], [f"{KWARGS}.judge=None: is not known; choices: release, verified"]),
        ([f"+{KWARGS}.boxed_fallback=true"], [f"{KWARGS}.boxed_fallback=True: is for judge=verified"]),
        ([f"+{KWARGS}.time_limit=0"], [f"{KWARGS}.time_limit=0: must be a positive number of seconds"]),
        ([f"+{KWARGS}.jugde=release"], [f"{KWARGS}.jugde=release: rpg.rewards takes judge"]),
        (["reward.custom_reward_function.path={toy}/mine.py"], [f"add '~{KWARGS}.judge'"]),
    ],
    "reward function": [
        (["reward.custom_reward_function.path=/nowhere/mine.py"], ["path=/nowhere/mine.py: no such file"]),
        (["reward.custom_reward_function.path=pkg://no.such.module"], ["pkg://no.such.module: no such module"]),
        (["reward.custom_reward_function.name=compute"], ["name=compute:", "defines no such function"]),
        (["reward.custom_reward_function.path={toy}/train.parquet"], ["cannot be read as Python"]),
    ],
    "modules": [
        ([f"{M}.external_lib=no.such.module"], [f"{M}.external_lib=no.such.module: no such module"]),
        (["rpg.preload.late=[no_such_module]"], ["rpg.preload.late=no_such_module: no such module"]),
    ],
    "weight bucket": [
        (
            [f"{M}.path=Qwen/Qwen3-4B"],
            [f"{BUCKET}=128: does not hold the model's largest weight, 1484 MiB; set it to 1484 or more"],
        ),
        ([f"{M}.path=Qwen/Qwen3-4B", f"{BUCKET}=1483"], [f"{BUCKET}=1483: does not hold"]),
    ],
    "variables for workers": [
        (["rpg.env.OMP_NUM_THREADS=two"], ["rpg.env.OMP_NUM_THREADS=two: must be a whole number of threads"]),
        (["rpg.env.VLLM_CPU_KVCACHE_SPACE=1.5"], ["rpg.env.VLLM_CPU_KVCACHE_SPACE=1.5: must be a whole number of GiB"]),
    ],
    "devices": [
        (["trainer.nnodes=2"], ["trainer.nnodes=2: needs a cluster", "RAY_ADDRESS"]),
        (["ray_kwargs.ray_init.num_gpus=0"], ["n_gpus_per_node=1: is more than the ray_kwargs.ray_init.num_gpus=0"]),
        (
            [*SEPARATE, "ray_kwargs.ray_init.num_gpus=1"],
            ["n_gpus_per_node=1: and 1 for the rollouts", "set ray_kwargs.ray_init.num_gpus to 2"],
        ),
        (["ray_kwargs.ray_init.num_gpus=null", "trainer.n_gpus_per_node=8"], ["n_gpus_per_node=8: this machine has"]),
    ],
    "flash attention": [
        (
            [f"{M}.override_config.attn_implementation=flash_attention_2"],
            ["flash-attn cannot be imported (No module named", "profile=gpu_sdpa"],
        ),
    ],
    "directories": [
        (["trainer.default_local_dir={toy}/train.parquet/run"], ["train.parquet is a file", "CKPTS_DIR"]),
        (["trainer.default_local_dir={toy}/$HOME"], ["Ray would read it as"]),
    ],
    "checkpoint": [
        (
            ["trainer.resume_mode=resume_path", "trainer.resume_from_path=/nowhere/global_step_1"],
            ["resume_from_path=/nowhere/global_step_1: no such directory"],
        ),
        (
            ["trainer.resume_mode=resume_path", "trainer.resume_from_path={toy}/model"],
            ["must end in global_step_N"],
        ),
        (
            ["trainer.resume_mode=resume_path", "trainer.resume_from_path={toy}/global_step_1"],
            ["resume_from_path={toy}/global_step_1: actor is missing"],
        ),
        (
            ["trainer.resume_mode=resume_path", "trainer.resume_from_path={toy}/cut/global_step_4"],
            ["{toy}/cut/global_step_4: actor/model_world_size_2_rank_1.pt is empty, of ", "resume_mode=auto takes"],
        ),
        (["trainer.default_local_dir={toy}/resumed"], ["says '5', and there is no checkpoint; verl would start anew"]),
        (
            ["trainer.default_local_dir={toy}/cut"],
            ["{toy}/cut: global_step_4 cannot be resumed from: actor/model_world_size_2_rank_1.pt is empty, of ",
             "global_step_2 cannot be resumed from: manifest.json is missing: the save did not come to its end; and no "
             "other one can; trainer.resume_mode=disable starts anew"],
        ),
    ],
    "data files": [
        (["data.train_files=/nowhere/a.parquet"], ["data.train_files=/nowhere/a.parquet: no such file", "TRAIN_FILE"]),
        (["data.val_files={toy}"], [": a directory, no file", "TEST_FILE"]),
        (["data.val_files={toy}/bad.parquet"], ["bad.parquet: not a parquet file"]),
        (["data.val_files={toy}/mine.py"], ["this is no .parquet"]),
        (["data.train_files={toy}/other.parquet"], ["column data_source is missing; it must be text",
                                                    "column prompt is missing", "column reward_model is missing"]),
        (["data.train_files={toy}/empty.parquet"], ["empty.parquet: no rows"]),
        (["data.prompt_key=question"], ["column question is missing; it must be a list of {role, content}"]),
    ],
    "data sources": [
        (["data.val_files={toy}/riddles.parquet"], ["data_source riddles is not scored", "custom_reward_function"]),
        (["data.val_files={toy}/chainsum.parquet"], ["data_source reasoning-gym/chainsum is not scored"]),
    ],
    "enough rows": [
        (["data.train_batch_size=80"], ["data.train_batch_size=80: is more than the 64 rows of data.train_files"]),
    ],
    "prompts fit": [
        (["data.max_prompt_length=10"], ["data.max_prompt_length=10: the shortest prompts of", "raise it"]),
    ],
    "model directory": [
        ([f"{M}.path=/nowhere/model"], [f"{M}.path=/nowhere/model: no such directory", "MODEL_PATH"]),
        ([f"{M}.path={{toy}}/mine.py"], ["a file, no directory"]),
    ],
    "registered with verl": [
        ([f"{L}=gsp"], [f"{L}=gsp: is not registered with verl; did you mean 'gspo'", "rpg_urkl"]),
        (["algorithm.adv_estimator=grpp"], ["algorithm.adv_estimator=grpp: is not registered with verl"]),
    ],
    "loss sees the reference": [
        (["method=dapo", "reference=fixed"], ["rpg.reference.mode=fixed: needs a loss that sees the reference"]),
    ],
    "reward manager": [
        (
            ["reward.reward_manager.name=dap", "reward.reward_kwargs.overlong_buffer_cfg.enable=false"],
            ["name=dap: verl has no such reward manager; known: dapo"],
        ),
    ],
    "arguments of ray.init": [
        (["+ray_kwargs.ray_init.num_cpu=4"], ["ray_init.num_cpu=4: ray.init has no such argument; did you mean num_"]),
    ],
    "verl's types": [
        (["data.return_raw_chat=7"], ["data.return_raw_chat=7: must be true or false, as in verl"]),
        ([f"{R}.seed=abc"], [f"{R}.seed=abc: must be int, as in verl"]),
        (["trainer.critic_warmup=null"], ["trainer.critic_warmup=null: must be a whole number, as in verl"]),
        ([f"+{A}.kl_los_coef=1"], ["FSDPActorConfig has no such setting; did you mean kl_loss_coef?"]),
        ([f"{A}.policy_loss._target_=rpg.Nothing"], ["_target_=rpg.Nothing: no such dataclass"]),
    ],
    "verl's own validation": [
        ([f"{A}.use_dynamic_bsz=false"], ["actor_rollout_ref.actor: [actor] Please set at least one of"]),
        ([f"{R}.mode=sync"], ["Rollout mode 'sync' has been removed"]),
        ([f"{M}.lora_rank=100000"], ["verl's validate_config:"]),
    ],
}  # fmt: skip
