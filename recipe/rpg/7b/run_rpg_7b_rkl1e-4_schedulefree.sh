#!/usr/bin/env bash
# RPG-RKL, beta 1e-4; Qwen2.5-Math-7B, schedule-free AdamW
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-math-7b optim=schedulefree method=rpg rpg.divergence=rkl rpg.kl_coef=1e-4 "$@"
