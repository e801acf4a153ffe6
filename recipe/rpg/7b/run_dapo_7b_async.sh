#!/usr/bin/env bash
# DAPO; Qwen2.5-Math-7B, asynchronous
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-math-7b optim=adamw method=dapo schedule=async pi_old=decoupled "$@"
