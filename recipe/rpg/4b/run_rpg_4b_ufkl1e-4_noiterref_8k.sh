#!/usr/bin/env bash
# RPG-UFKL, beta 1e-4, reference fixed at the initial model; Qwen3-4B, 8K context
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    model=qwen3-4b optim=adamw context=8k method=rpg rpg.divergence=ufkl rpg.kl_coef=1e-4 reference=fixed "$@"
