#!/usr/bin/env bash
# RPG-URKL, beta 1e-4; Qwen2.5-Math-7B
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-math-7b optim=adamw method=rpg rpg.divergence=urkl rpg.kl_coef=1e-4 "$@"
