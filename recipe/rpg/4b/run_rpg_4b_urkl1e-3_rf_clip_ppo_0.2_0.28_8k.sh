#!/usr/bin/env bash
# RPG-REINFORCE, URKL, beta 1e-3, RPG-Style Clip (0.2, 0.28); Qwen3-4B, 8K context
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen3-4b optim=adamw context=8k \
    method=rpg_rf_clip_ppo rpg.divergence=urkl rpg.kl_coef=1e-3 clip=0.2_0.28 "$@"
