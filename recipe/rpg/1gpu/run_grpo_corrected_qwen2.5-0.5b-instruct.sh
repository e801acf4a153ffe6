#!/usr/bin/env bash
# GRPO-corrected; Qwen2.5-0.5B-Instruct, GSM8K, one GPU
# Never run on a GPU by its authors; `rpg plan` estimates its memory.
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=one_gpu model=qwen2.5-0.5b-instruct dataset=gsm8k optim=adamw method=grpo_corrected "$@"
