#!/usr/bin/env bash
# DAPO; toy task, CPU profile, asynchronous
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=dapo schedule=async pi_old=decoupled "$@"
