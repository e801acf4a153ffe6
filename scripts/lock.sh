#!/usr/bin/env bash
# requirements/cpu.in -> requirements/cpu.txt, and requirements/reasoning-gym.in -> the packages that it needs beside
# those, for Python 3.11 and 3.12 on Linux x86-64: one list without markers, as both need the same versions
# (scripts/check_requirement.sh says whether that is still so). Options go to `uv pip compile`, e.g. --find-links DIR
# where the index has no CPU build of torch, or --upgrade.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compile=(.venv/bin/uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-find-links
    --override requirements/cpu-overrides.txt)
"${compile[@]}" requirements/cpu.in --output-file requirements/cpu.txt "$@"
all=$("${compile[@]}" --constraint requirements/cpu.txt requirements/reasoning-gym.in "$@")
grep -vxFf requirements/cpu.txt <<< "$all" > requirements/reasoning-gym.txt
