#!/usr/bin/env bash
# RPG-REINFORCE, UFKL, beta 1e-4, unclipped; toy task, CPU profile
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    profile=cpu model=toy dataset=toy optim=toy method=rpg_rf rpg.divergence=ufkl rpg.kl_coef=1e-4 "$@"
