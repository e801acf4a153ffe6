#!/usr/bin/env bash
# requirements/cpu.in -> requirements/cpu.txt for Python 3.11 and 3.12 on Linux x86-64: one list without markers, because
# both need the same versions (scripts/check_requirement.sh checks that). Options go to `uv pip compile`, for example
# --upgrade, or --find-links DIR if the index has no CPU build of torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-find-links \
    --override requirements/cpu-overrides.txt requirements/cpu.in --output-file requirements/cpu.txt "$@"
