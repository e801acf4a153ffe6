#!/usr/bin/env bash
# GRPO; toy task, CPU profile, asynchronous
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=grpo schedule=async pi_old=decoupled "$@"
