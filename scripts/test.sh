#!/usr/bin/env bash
# All checks. --fast: no end-to-end or slow tests (2 minutes on 2 cores); no option: what CI runs; --full: everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
    --fast) unit='not e2e and not full and not gpu and not slow' ;;
    --full) unit='not e2e and not gpu' ;;
    '') unit='not e2e and not full and not gpu' ;;
    *) echo "test.sh: unknown option $1; known: --fast, --full" >&2; exit 2 ;;
esac
bash scripts/setup.sh
export PATH="$PWD/.venv/bin:$PATH"
export WANDB_MODE=offline HF_HUB_OFFLINE=1
ruff check .
ruff format --check .
bash scripts/docs.sh
pyright & types=$! # beside the tests
trap wait EXIT # also if a test fails
# one core each; tests of one file stay together because they share fixtures
OMP_NUM_THREADS=1 pytest -m "$unit" --numprocesses 2 --dist loadfile --durations=10
wait "$types"
# two runs at a time: a start, which is most of a short run, uses little more than one core; in the order of the names,
# else one process gets the two longest files, which have the fewest tests
[[ ${1:-} == --fast ]] ||
    pytest tests/e2e -m 'e2e and not full' -n 2 --dist loadfile --no-loadscope-reorder --durations=10
if [[ ${1:-} == --full ]]; then
    pytest tests/e2e -m 'e2e and full' --durations=10
    bash scripts/check_gpu_environment.sh # an environment of its own, of 10 GB
fi
