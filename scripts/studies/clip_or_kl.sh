#!/usr/bin/env bash
# Can a KL replace the clip, and what is wrong with the hard clip? stability.sh's task and rate: UFKL and URKL without a
# clip at three betas, the hard clip with one bound, and CISPO, DPPO-TV and SAPO with their authors' bounds. All share
# advantages, overlong shaping, batches and validation, and token-mean but for SAPO, whose mean over responses verl
# fixes; the arm that they are compared with is run anew.
#   bash scripts/studies/clip_or_kl.sh [OVERRIDE...]
#   SEEDS="1 2" bash scripts/studies/clip_or_kl.sh
# Two and a half minutes per run on two cores. A finished run is kept, an interrupted one resumes. Expectations:
# docs/results/expectations.md.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/chain_train.sh"

rate=2e-4
runs=checkpoints/clip_or_kl
out=docs/results/clip_or_kl
actor=actor_rollout_ref.actor
urkl=rpg_cpu_urkl1e-4_rf
hard="$actor.policy_loss.loss_mode=rpg_rf_urkl_clip_hard"
shared="algorithm.norm_adv_by_std_in_grpo=false algorithm.filter_groups.enable=false $actor.loss_agg_mode=token-mean
    $actor.loss_scale_factor=null reward.reward_kwargs.overlong_buffer_cfg.enable=true"
for seed in ${SEEDS:-1 2 3 4 5 6}; do
    train rpg_style ${urkl}_clip_ppo_0.2_0.28 "$@"
    for beta in 0.1 0.3 1; do
        train "ufkl_$beta" rpg_cpu_ufkl1e-4_rf "rpg.kl_coef=$beta" "$@"
        train "urkl_$beta" $urkl "rpg.kl_coef=$beta" "$@"
    done
    train hard_floor ${urkl}_clip_ppo_0.2_0.28 "$hard" $actor.clip_ratio_high=1e6 "$@"
    train hard_ceiling ${urkl}_clip_ppo_0.2_0.28 "$hard" $actor.clip_ratio_low=1 "$@"
    for method in cispo dppo sapo; do
        train $method ${method}_cpu $shared "$@"
    done
done
"$python" scripts/studies/compact.py pack "$runs" "$out"
"$python" scripts/studies/clip_or_kl_report.py "$out" "$out"
