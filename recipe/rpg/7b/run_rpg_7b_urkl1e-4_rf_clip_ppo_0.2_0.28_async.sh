#!/usr/bin/env bash
# RPG-REINFORCE-URKL, beta 1e-4, clip (0.2, 0.28); Qwen2.5-Math-7B, asynchronous
# lr: 5e-7 in the release's REINFORCE scripts, 1e-6 in the paper
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-math-7b optim=adamw method=rpg_rf_clip_ppo rpg.divergence=urkl rpg.kl_coef=1e-4 clip=0.2_0.28 \
    actor_rollout_ref.actor.optim.lr=5e-7 schedule=async pi_old=decoupled "$@"
