#!/usr/bin/env bash
# RPG-REINFORCE-UFKL, beta 1e-4, clip (0.2, 0.28); Qwen2.5-Math-7B, schedule-free AdamW
# lr: 5e-7 in the release's REINFORCE scripts, 1e-6 in the paper
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-math-7b optim=schedulefree method=rpg_rf_clip_ppo rpg.divergence=ufkl rpg.kl_coef=1e-4 \
    clip=0.2_0.28 actor_rollout_ref.actor.optim.lr=5e-7 "$@"
