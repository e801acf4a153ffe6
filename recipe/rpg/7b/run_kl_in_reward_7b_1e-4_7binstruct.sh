#!/usr/bin/env bash
# KL in reward, beta 1e-4; Qwen2.5-7B-Instruct
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen2.5-7b-instruct optim=adamw method=kl_in_reward rpg.kl_coef=1e-4 "$@"
