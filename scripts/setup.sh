#!/usr/bin/env bash
# Make .venv at the repository's root: Python 3.11 or 3.12, the CPU environment locked in requirements/cpu.txt, and this
# package (editable). A second run changes nothing unless the requirements changed. PYTHON names the interpreter; the
# default is that of an existing .venv, else the first of python3.11, python3.12, python3 and python that fits, else one
# that uv installs.
set -euo pipefail
case $* in
    '') ;;
    --help) sed -n '2,5s/^# //p' "$0"; exit ;;
    *) { echo "setup.sh: unknown option $*"; sed -n '2,5s/^# //p' "$0"; } >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/venv.sh

if [[ -n ${PYTHON:-} ]]; then
    python=$PYTHON
    fits "$python" || stop "PYTHON=$python is not Python 3.11 or 3.12, for which requirements/cpu.txt is locked"
else
    candidates=(python3.11 python3.12 python3 python)
    [[ ! -x .venv/bin/pip ]] || candidates=(.venv/bin/python "${candidates[@]}")
    find_python "${candidates[@]}"
fi

stamp=.venv/.rpg-setup
state=$({ "$python" --version; cat requirements/cpu.txt requirements/vllm-name/pyproject.toml pyproject.toml scripts/setup.sh scripts/venv.sh; pwd; } | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$state" ]]; then
    say ".venv is up to date"
    exit 0
fi

began=$SECONDS
make_venv .venv
rm -f "$stamp"
bin=$PWD/.venv/bin
uv=$(pinned uv)
torch=$(pinned torch)
say "into .venv, 4 GB; takes a minute, plus the download of 1 GB"
during "1 of 3, the installer $uv" \
    "$bin/pip" install --quiet --disable-pip-version-check "$uv"

# torch first, because not every index has its CPU build
if ! during "2 of 3, $torch" \
    "$bin/pip" install --quiet --disable-pip-version-check --no-deps "$torch" 2>/dev/null; then
    say "$torch is not in the package index or find-links that pip is configured with;" \
        "trying PyTorch's own index of CPU builds (uv --torch-backend cpu)"
    if ! during "2 of 3, $torch from PyTorch's index" \
        "$bin/uv" pip install --quiet --python "$bin/python" --no-deps --torch-backend cpu "$torch"; then
        say "that index cannot be reached either; taking ${torch%+cpu}, the CUDA build, which runs on a CPU" \
            "too but is several GB with its libraries"
        during "2 of 3, ${torch%+cpu}" "$bin/uv" pip install --quiet --python "$bin/python" "${torch%+cpu}" \
            || stop "no build of ${torch%+cpu} could be installed; the message above says why"
    fi
fi

grep -v '^torch==\|^pycosat==' requirements/cpu.txt > .venv/requirements-without-torch.txt
# Compile now: with PYTHONDONTWRITEBYTECODE, which many images set, every process would compile its imports again, and
# the stack would start 20 s later.
during "3 of 3, $(grep -c '==' .venv/requirements-without-torch.txt) packages, compiled to bytecode" \
    "$bin/uv" pip install --quiet --compile-bytecode --python "$bin/python" --no-deps \
    --requirement .venv/requirements-without-torch.txt
# reasoning-gym needs it, and it has no wheel; everything else works without
if ! "$bin/uv" pip install --quiet --python "$bin/python" --no-deps "$(pinned pycosat)" 2>/dev/null; then
    say "$(pinned pycosat) could not be compiled, so reasoning_gym tasks are not available: install gcc and Python's" \
        "headers (apt install gcc python3-dev), then .venv/bin/uv pip install $(pinned pycosat)"
fi
"$bin/uv" pip install --quiet --python "$bin/python" --no-deps --no-build-isolation --editable . ./requirements/vllm-name
"$bin/python" -c 'import torch, rpg, importlib.metadata as m; m.version("vllm")'
echo "$state" > "$stamp"
say "done in $((SECONDS - began)) s"
