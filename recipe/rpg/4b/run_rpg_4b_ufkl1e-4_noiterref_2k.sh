#!/usr/bin/env bash
# RPG, UFKL, beta 1e-4, reference fixed at the initial model; Qwen3-4B, 2K context
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen3-4b optim=adamw context=2k method=rpg rpg.divergence=ufkl rpg.kl_coef=1e-4 reference=fixed "$@"
