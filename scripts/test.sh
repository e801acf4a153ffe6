#!/usr/bin/env bash
# All checks. --fast: no end-to-end or slow tests (2 minutes on 2 cores); no option: what CI runs; --full: everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
    --fast) unit='not e2e and not full and not gpu and not slow' stack='' ;;
    --full) unit='not e2e and not gpu' stack='e2e' at_once=2 ;;
    '') unit='not e2e and not full and not gpu' stack='e2e and not full' at_once=0 ;;
    *) echo "test.sh: unknown option $1; known: --fast, --full" >&2; exit 2 ;;
esac
bash scripts/setup.sh
export PATH="$PWD/.venv/bin:$PATH"
export WANDB_MODE=offline HF_HUB_OFFLINE=1
ruff check .
ruff format --check .
bash scripts/docs.sh
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -r "$logs"' EXIT # also if a test fails, or after Ctrl-C
pyright > "$logs/pyright" & types=$!
# one core each; tests of one file stay together because they share fixtures
OMP_NUM_THREADS=1 pytest -m "$unit" --numprocesses 2 --dist loadfile --durations=10 > "$logs/unit" 2>&1 & units=$!
# the stack waits for its processes often, so it runs beside them; its run has both cores
rc=0
[[ -z $stack ]] || pytest tests/e2e -m "$stack" --numprocesses "$at_once" --dist loadfile --durations=10 || rc=1
wait "$units" || rc=1
cat "$logs/unit"
wait "$types" || rc=1
cat "$logs/pyright"
[[ ${1:-} != --full ]] || bash scripts/check_gpu_environment.sh || rc=1 # an environment of its own, of 10 GB
exit "$rc"
