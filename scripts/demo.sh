#!/usr/bin/env bash
# Run the whole stack on this machine: install the environment, build toy model and data, train through a launch script,
# and show the result as a table and a curve. Options go to `rpg demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
exec .venv/bin/rpg demo "$@"
