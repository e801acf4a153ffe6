#!/usr/bin/env bash
# All checks. --fast: without the end-to-end tests (2 minutes). Without an option: what CI runs. --full: everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
    --fast) select='not e2e and not full' ;;
    --full) select='' ;;
    '') select='not full' ;;
    *) echo "test.sh: unknown option $1; known: --fast, --full" >&2; exit 2 ;;
esac
bash scripts/setup.sh
export PATH="$PWD/.venv/bin:$PATH"
export WANDB_MODE=offline HF_HUB_OFFLINE=1
ruff check .
ruff format --check .
pyright
pytest -m "$select" --durations=15
