#!/usr/bin/env bash
# KL in reward, beta 1e-4; Qwen3-4B, 2K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=2k method=kl_in_reward rpg.kl_coef=1e-4 "$@"
