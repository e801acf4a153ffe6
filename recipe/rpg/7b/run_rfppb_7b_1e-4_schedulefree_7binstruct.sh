#!/usr/bin/env bash
# REINFORCE++-Baseline, beta 1e-4; Qwen2.5-7B-Instruct, schedule-free AdamW
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-7b-instruct optim=schedulefree method=rfppb rpg.kl_coef=1e-4 "$@"
