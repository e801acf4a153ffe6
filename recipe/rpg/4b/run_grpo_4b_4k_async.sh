#!/usr/bin/env bash
# GRPO; Qwen3-4B, 4K context, asynchronous
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=4k method=grpo schedule=async pi_old=decoupled "$@"
