#!/usr/bin/env bash
# RPG-REINFORCE-UFKL, beta 1e-3, clip (0.2, 0.28); toy task, CPU profile
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=rpg_rf_clip_ppo rpg.divergence=ufkl rpg.kl_coef=1e-3 \
    clip=0.2_0.28 "$@"
