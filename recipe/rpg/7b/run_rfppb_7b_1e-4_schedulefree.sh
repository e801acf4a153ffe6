#!/usr/bin/env bash
# REINFORCE++-baseline, beta 1e-4; Qwen2.5-Math-7B, schedule-free AdamW
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen2.5-math-7b optim=schedulefree method=rfppb rpg.kl_coef=1e-4 "$@"
