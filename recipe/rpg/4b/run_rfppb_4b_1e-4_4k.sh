#!/usr/bin/env bash
# REINFORCE++-baseline, beta 1e-4; Qwen3-4B, 4K context
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen3-4b optim=adamw context=4k method=rfppb rpg.kl_coef=1e-4 "$@"
