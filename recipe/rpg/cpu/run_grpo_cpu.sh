#!/usr/bin/env bash
# GRPO; toy task, CPU profile
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    profile=cpu model=toy dataset=toy optim=toy method=grpo "$@"
