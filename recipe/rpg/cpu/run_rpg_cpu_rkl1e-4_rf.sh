#!/usr/bin/env bash
# RPG-REINFORCE-RKL (no clip), beta 1e-4; toy task, CPU profile
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=rpg_rf rpg.divergence=rkl rpg.kl_coef=1e-4 "$@"
