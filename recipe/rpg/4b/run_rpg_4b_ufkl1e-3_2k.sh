#!/usr/bin/env bash
# RPG-UFKL, beta 1e-3; Qwen3-4B, 2K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=2k method=rpg rpg.divergence=ufkl rpg.kl_coef=1e-3 "$@"
