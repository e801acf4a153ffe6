#!/usr/bin/env bash
# DAPO; Qwen3-4B, 4K context, asynchronous
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=4k method=dapo schedule=async pi_old=decoupled "$@"
