#!/usr/bin/env bash
# GRPO with the importance-weighted KL; toy task, CPU profile
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    profile=cpu model=toy dataset=toy optim=toy method=grpo_corrected "$@"
