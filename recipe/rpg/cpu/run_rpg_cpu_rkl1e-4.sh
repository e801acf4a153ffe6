#!/usr/bin/env bash
# RPG, RKL, beta 1e-4; toy task, CPU profile
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    profile=cpu model=toy dataset=toy optim=toy method=rpg rpg.divergence=rkl rpg.kl_coef=1e-4 "$@"
