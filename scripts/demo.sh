#!/usr/bin/env bash
# The whole stack on this machine, from nothing: environment, toy model and data, a training run through its launch
# script, then the result as a table and a curve. Options go to `rpg demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
exec .venv/bin/rpg demo "$@"
