#!/usr/bin/env bash
# Which clip or KL keeps training stable when steps are too large? The study's task at twice its learning rate: eight
# losses that share advantages, overlong shaping, batches and validation, six seeds each.
#   bash scripts/studies/stability.sh [OVERRIDE...]
#   SEEDS="1 2" bash scripts/studies/stability.sh
# 48 runs of three minutes on two cores. A finished run is kept, an interrupted one resumes. Expectations:
# docs/results/expectations.md.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/chain_train.sh"

rate=2e-4
runs=checkpoints/stability
out=docs/results/stability
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
"$python" scripts/studies/compact.py pack "$runs" "$out"
"$python" scripts/studies/stability_report.py "$out" "$out"
