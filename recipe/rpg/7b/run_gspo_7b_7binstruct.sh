#!/usr/bin/env bash
# GSPO; Qwen2.5-7B-Instruct
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-7b-instruct optim=adamw method=gspo "$@"
