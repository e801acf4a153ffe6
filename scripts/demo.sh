#!/usr/bin/env bash
# Install the environment, train SmolLM2 (--model toy: the toy model) through a launch script, and show the result.
# Options go to `rpg demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
exec .venv/bin/rpg demo "$@"
