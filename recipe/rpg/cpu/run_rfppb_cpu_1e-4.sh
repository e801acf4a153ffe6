#!/usr/bin/env bash
# REINFORCE++-baseline, beta 1e-4; toy task, CPU profile
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    profile=cpu model=toy dataset=toy optim=toy method=rfppb rpg.kl_coef=1e-4 "$@"
