#!/usr/bin/env bash
# GRPO-corrected; Qwen2.5-Math-7B, schedule-free AdamW
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-math-7b optim=schedulefree method=grpo_corrected "$@"
