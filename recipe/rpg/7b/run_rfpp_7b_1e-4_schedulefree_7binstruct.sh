#!/usr/bin/env bash
# REINFORCE++, beta 1e-4; Qwen2.5-7B-Instruct, schedule-free AdamW
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen2.5-7b-instruct optim=schedulefree method=rfpp rpg.kl_coef=1e-4 "$@"
