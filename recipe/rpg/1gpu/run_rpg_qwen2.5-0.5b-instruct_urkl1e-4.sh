#!/usr/bin/env bash
# RPG-URKL, beta 1e-4; Qwen2.5-0.5B-Instruct, GSM8K, one GPU
# Never run on a GPU by its authors; `rpg plan` estimates its memory.
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=one_gpu model=qwen2.5-0.5b-instruct dataset=gsm8k optim=adamw method=rpg rpg.divergence=urkl \
    rpg.kl_coef=1e-4 "$@"
