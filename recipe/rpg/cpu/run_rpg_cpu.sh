#!/usr/bin/env bash
# RPG without KL; toy task, CPU profile
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=rpg rpg.divergence=ufkl rpg.kl_coef=0 "$@"
