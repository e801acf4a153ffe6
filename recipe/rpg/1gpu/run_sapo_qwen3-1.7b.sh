#!/usr/bin/env bash
# SAPO; Qwen3-1.7B, GSM8K, one GPU
# Never run on a GPU by its authors; `rpg plan` estimates its memory.
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=one_gpu model=qwen3-1.7b dataset=gsm8k optim=adamw method=sapo "$@"
