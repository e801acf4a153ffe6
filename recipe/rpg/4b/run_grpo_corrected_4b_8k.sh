#!/usr/bin/env bash
# GRPO with the importance-weighted KL; Qwen3-4B, 8K context
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    model=qwen3-4b optim=adamw context=8k method=grpo_corrected "$@"
