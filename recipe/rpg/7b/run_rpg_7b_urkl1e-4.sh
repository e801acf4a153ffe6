#!/usr/bin/env bash
# RPG, URKL, beta 1e-4; Qwen2.5-Math-7B
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen2.5-math-7b optim=adamw method=rpg rpg.divergence=urkl rpg.kl_coef=1e-4 "$@"
