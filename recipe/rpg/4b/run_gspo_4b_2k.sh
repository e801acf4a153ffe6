#!/usr/bin/env bash
# GSPO; Qwen3-4B, 2K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=2k method=gspo "$@"
