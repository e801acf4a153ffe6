#!/usr/bin/env bash
# RPG-URKL, beta 1e-4; Qwen3-4B, 4K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=4k method=rpg rpg.divergence=urkl rpg.kl_coef=1e-4 "$@"
