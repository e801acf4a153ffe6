#!/usr/bin/env bash
# KL in reward, beta 1e-4; toy task, CPU profile
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=kl_in_reward rpg.kl_coef=1e-4 "$@"
