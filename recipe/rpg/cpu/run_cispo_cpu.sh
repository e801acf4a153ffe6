#!/usr/bin/env bash
# CISPO; toy task, CPU profile
script=$(readlink -f "$0") && exec bash "${script%/*}/../launch.sh" "$script" \
    profile=cpu model=toy dataset=toy optim=toy method=cispo "$@"
