#!/usr/bin/env bash
# RPG-REINFORCE-UFKL, beta 1e-3, clip (0.2, 0.28), reference fixed at the initial model; Qwen3-4B, 4K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=4k method=rpg_rf_clip_ppo rpg.divergence=ufkl rpg.kl_coef=1e-3 \
    clip=0.2_0.28 reference=fixed "$@"
