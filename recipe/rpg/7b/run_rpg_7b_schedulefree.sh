#!/usr/bin/env bash
# RPG without KL; Qwen2.5-Math-7B, schedule-free AdamW
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen2.5-math-7b optim=schedulefree method=rpg rpg.divergence=ufkl rpg.kl_coef=0 "$@"
