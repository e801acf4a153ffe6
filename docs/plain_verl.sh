#!/usr/bin/env bash
# Stock verl with an RPG loss: nothing of this package but what `pip install` registered. Runs on a CPU:
#     rpg demo --model toy --prepare-only && bash docs/plain_verl.sh [OVERRIDE ...]
# For a GPU (never run there), leave out the exports and "${cpu[@]}".
set -euo pipefail
export VERL_PLATFORM=cpu              # this package's platform; without it FSDP asks for NCCL
export VLLM_CPU_KVCACHE_SPACE=1       # GiB; vLLM would take 40 % of the memory
export VLLM_ENABLE_V1_MULTIPROCESSING=0
export OMP_NUM_THREADS=1 TQ_NUM_THREADS=1
export VERL_FILE_LOGGER_PATH=${VERL_FILE_LOGGER_PATH:-runs/plain_verl/metrics.jsonl}
mkdir -p "$(dirname "$VERL_FILE_LOGGER_PATH")"
python=$(command -v .venv/bin/python || command -v python)

rpg_loss=(
    algorithm.adv_estimator=rpg
    actor_rollout_ref.actor.policy_loss._target_=rpg.verl_plugin.config.RPGPolicyLossConfig
    actor_rollout_ref.actor.policy_loss.loss_mode=rpg_rf_urkl_clip_ppo
    +actor_rollout_ref.actor.policy_loss.kl_coef=1e-4
    actor_rollout_ref.actor.clip_ratio_low=0.2
    actor_rollout_ref.actor.clip_ratio_high=0.28
    actor_rollout_ref.actor.clip_ratio_c=10.0
)
run=(
    actor_rollout_ref.model.path="${MODEL_PATH:-runs/toy/model}"
    data.train_files="${TRAIN_FILE:-runs/toy/toy_train.parquet}"
    data.val_files="${TEST_FILE:-runs/toy/toy_test.parquet}"
    trainer.default_local_dir="${CKPTS_DIR:-runs/plain_verl}"
    reward.custom_reward_function.path=pkg://rpg.rewards
    +reward.custom_reward_function.reward_kwargs.judge=release
    data.train_batch_size=16
    data.max_prompt_length=80
    data.max_response_length=32
    actor_rollout_ref.actor.strategy=fsdp2
    actor_rollout_ref.actor.optim.lr=3e-4
    actor_rollout_ref.actor.ppo_mini_batch_size=4 # four updates a batch; in one alone, clip and KL have no effect
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n=4
    actor_rollout_ref.rollout.tensor_model_parallel_size=1
    actor_rollout_ref.rollout.max_model_len=112
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=64
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=64 # for use_kl_loss
    trainer.n_gpus_per_node=1
    trainer.logger=[console,file]
    trainer.val_before_train=false
    trainer.total_training_steps=2
    trainer.save_freq=2
)
cpu=( # CPU only
    trainer.device=cpu
    ray_kwargs.ray_init.num_cpus=16
    +ray_kwargs.ray_init.num_gpus=1
    +ray_kwargs.ray_init.address=local
    data.dataloader_num_workers=0
    reward.num_workers=1
    transfer_queue.backend.SimpleStorage.num_data_storage_units=1
    actor_rollout_ref.model.use_remove_padding=false
    actor_rollout_ref.model.enable_gradient_checkpointing=false
    +actor_rollout_ref.model.override_config.attn_implementation=sdpa
    actor_rollout_ref.actor.use_torch_compile=false
    actor_rollout_ref.actor.fsdp_config.use_torch_compile=false
    +actor_rollout_ref.actor.fsdp_config.mixed_precision="{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"
    actor_rollout_ref.rollout.dtype=float32
    actor_rollout_ref.rollout.enforce_eager=true
    actor_rollout_ref.rollout.free_cache_engine=false
    +actor_rollout_ref.rollout.enable_sleep_mode=false
    actor_rollout_ref.rollout.agent.num_workers=1
    actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=128
    +actor_rollout_ref.rollout.engine_kwargs.vllm.distributed_executor_backend=uni
)
exec "$python" -m verl.trainer.main_ppo "${rpg_loss[@]}" "${run[@]}" "${cpu[@]}" "$@"
