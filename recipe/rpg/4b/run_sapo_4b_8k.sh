#!/usr/bin/env bash
# SAPO; Qwen3-4B, 8K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=8k method=sapo "$@"
