#!/usr/bin/env bash
# GRPO with the importance-weighted KL; Qwen3-4B, 2K context
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen3-4b optim=adamw context=2k method=grpo_corrected "$@"
