#!/usr/bin/env bash
# RPG-REINFORCE-URKL, beta 1e-4, clip (0.2, 0.28); SmolLM2-135M-Instruct, CPU profile
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu_bf16 model=smollm2 dataset=small_sums optim=smollm2 method=rpg_rf_clip_ppo rpg.divergence=urkl \
    rpg.kl_coef=1e-4 clip=0.2_0.28 "$@"
