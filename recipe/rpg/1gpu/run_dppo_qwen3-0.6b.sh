#!/usr/bin/env bash
# DPPO-TV; Qwen3-0.6B, GSM8K, one GPU
# Never run on a GPU by its authors; `rpg plan` estimates its memory.
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=one_gpu model=qwen3-0.6b dataset=gsm8k optim=adamw method=dppo "$@"
