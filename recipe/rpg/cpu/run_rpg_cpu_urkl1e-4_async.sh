#!/usr/bin/env bash
# RPG-URKL, beta 1e-4; toy task, CPU profile, asynchronous
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=rpg rpg.divergence=urkl rpg.kl_coef=1e-4 schedule=async \
    pi_old=decoupled "$@"
