#!/usr/bin/env bash
# Which clip or KL keeps training stable when steps are too large? The study's task at twice its learning rate: eight
# losses that share advantages, overlong shaping, batches and validation, six seeds each.
#   bash docs/results/stability.sh [OVERRIDE...]
#   SEEDS="1 2" bash docs/results/stability.sh
# Three minutes a run on two cores, 48 runs, seed by seed. A finished run is kept, an interrupted one resumes. What was
# expected: stability/expectations.md.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
runs=$root/checkpoints/stability
out=docs/results/stability
steps=12
rpg=$root/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
python=${rpg%rpg}python
cd "$root"
[[ -f runs/chain/model/model.safetensors ]] || "$python" -m rpg.toy.chain runs/chain

train() { # ARM SCRIPT OVERRIDES...
    local run=$runs/$1-seed$seed script=recipe/rpg/cpu/run_$2.sh
    shift 2
    [[ -d $run/global_step_$steps ]] && return
    bash "$script" dataset=chain model=chain actor_rollout_ref.rollout.n=8 data.train_batch_size=32 \
        actor_rollout_ref.actor.ppo_mini_batch_size=2 actor_rollout_ref.actor.optim.lr=2e-4 \
        actor_rollout_ref.rollout.val_kwargs.n=8 data.val_max_samples=128 trainer.val_before_train=false \
        "trainer.test_freq=$steps" "trainer.save_freq=$steps" "trainer.total_training_steps=$steps" \
        "data.seed=$seed" "trainer.default_local_dir=$run" "$@"
}

rf=rpg_cpu_urkl1e-4_rf
for seed in ${SEEDS:-1 2 3 4 5 6}; do
    train unclipped $rf "$@"
    train rpg_style_0.1_0.1 ${rf}_clip_ppo_0.1_0.1 "$@"
    train rpg_style_0.2_0.28 ${rf}_clip_ppo_0.2_0.28 "$@"
    train ufkl_0.03 rpg_cpu_ufkl1e-4_rf rpg.kl_coef=0.03 "$@"
    train grpo grpo_cpu actor_rollout_ref.actor.clip_ratio_high=0.28 algorithm.norm_adv_by_std_in_grpo=false \
        reward.reward_kwargs.overlong_buffer_cfg.enable=true "$@"
    train urkl_0.03 $rf rpg.kl_coef=0.03 "$@"
    train urkl_0.03_clipped ${rf}_clip_ppo_0.2_0.28 rpg.kl_coef=0.03 "$@"
    train hard_0.2_0.28 ${rf}_clip_ppo_0.2_0.28 actor_rollout_ref.actor.policy_loss.loss_mode=rpg_rf_urkl_clip_hard "$@"
done
"$python" docs/results/compact.py pack "$runs" "$out"
"$python" docs/results/stability_report.py "$out" "$out"
