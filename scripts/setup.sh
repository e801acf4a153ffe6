#!/usr/bin/env bash
# Make .venv at the repository's root: Python 3.11, the CPU environment locked in requirements/cpu.txt, this
# package (editable). Run again, it does nothing when nothing changed. PYTHON names another Python 3.11.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stop() { printf 'setup: %s\n' "$*" >&2; exit 1; }
is_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; }

python=${PYTHON:-}
if [[ -z $python ]]; then
    for candidate in python3.11 python3 python; do
        if is_311 "$candidate"; then python=$candidate; break; fi
    done
fi
[[ -n $python ]] || stop "no Python 3.11 found; install it or name it: PYTHON=/path/to/python3.11 bash scripts/setup.sh"
is_311 "$python" || stop "PYTHON=$python is not Python 3.11, for which requirements/cpu.txt is locked"

stamp=.venv/.rpg-setup
state=$({ "$python" --version; cat requirements/cpu.txt requirements/vllm-name/pyproject.toml pyproject.toml scripts/setup.sh; pwd; } | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$state" ]]; then
    echo "setup: .venv is up to date"
    exit 0
fi

began=$SECONDS
[[ -x .venv/bin/python ]] && is_311 .venv/bin/python || "$python" -m venv --clear .venv
rm -f "$stamp"
bin=$PWD/.venv/bin
uv=$(grep '^uv==' requirements/cpu.txt)
torch=$(grep '^torch==' requirements/cpu.txt)
echo "setup: installing $(grep -c '==' requirements/cpu.txt) packages into .venv"
"$bin/pip" install --quiet --disable-pip-version-check "$uv"

# torch first, by itself: its CPU build is not on every index.
if ! "$bin/pip" install --quiet --disable-pip-version-check --no-deps "$torch" 2>/dev/null; then
    echo "setup: $torch is not in the package index or find-links that pip is configured with;" \
        "trying PyTorch's own index of CPU builds (uv --torch-backend cpu)"
    if ! "$bin/uv" pip install --quiet --python "$bin/python" --no-deps --torch-backend cpu "$torch"; then
        echo "setup: that index cannot be reached either; taking ${torch%+cpu}, the CUDA build, which runs on a CPU" \
            "too but is several GB with its libraries"
        "$bin/uv" pip install --quiet --python "$bin/python" "${torch%+cpu}" \
            || stop "no build of ${torch%+cpu} could be installed; the message above says why"
    fi
fi

grep -v '^torch==' requirements/cpu.txt > .venv/requirements-without-torch.txt
"$bin/uv" pip install --quiet --python "$bin/python" --no-deps --requirement .venv/requirements-without-torch.txt
"$bin/uv" pip install --quiet --python "$bin/python" --no-deps --no-build-isolation --editable . ./requirements/vllm-name
"$bin/python" -c 'import torch, rpg, importlib.metadata as m; m.version("vllm")'
echo "$state" > "$stamp"
echo "setup: done in $((SECONDS - began)) s"
