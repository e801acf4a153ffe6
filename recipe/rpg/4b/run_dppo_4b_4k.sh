#!/usr/bin/env bash
# DPPO-TV; Qwen3-4B, 4K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=4k method=dppo "$@"
