#!/usr/bin/env bash
# DAPO; toy task, CPU profile
exec bash "$(dirname "${BASH_SOURCE[0]}")/../launch.sh" "$0" \
    profile=cpu model=toy dataset=toy optim=toy method=dapo "$@"
