#!/usr/bin/env bash
# Make .venv at the repository's root: Python 3.11 or 3.12, the CPU environment locked in requirements/cpu.txt, this
# package (editable). Run again, it does nothing when nothing changed. PYTHON names the Python to take; without it a
# .venv that is there keeps its own, else it is the first of python3.11, python3.12, python3 and python that fits,
# else one that uv brings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stop() { printf 'setup: %s\n' "$*" >&2; exit 1; }
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
fits() { [[ $(version "$1") == 3.1[12] ]]; }

python=${PYTHON:-}
if [[ -n $python ]]; then
    fits "$python" || stop "PYTHON=$python is not Python 3.11 or 3.12, for which requirements/cpu.txt is locked"
else
    candidates=(python3.11 python3.12 python3 python)
    [[ ! -x .venv/bin/pip ]] || candidates=(.venv/bin/python "${candidates[@]}")
    for candidate in "${candidates[@]}"; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
fi
if [[ -z $python ]]; then
    uv=$(command -v uv || true)
    if [[ -z $uv ]]; then # any Python can fetch it
        temporary=$(mktemp -d)
        trap 'rm -rf "$temporary"' EXIT
        uv=$temporary/bin/uv
        { python3 -m venv "$temporary" >/dev/null 2>&1 &&
            "$temporary/bin/pip" install --quiet --disable-pip-version-check "$(grep '^uv==' requirements/cpu.txt)"; } \
            || stop "no Python 3.11 or 3.12 found, nor uv, nor a python3 that could fetch uv. Install Python" \
                "(Ubuntu 24.04: apt install python3.12-venv) or uv, or name a Python that is there:" \
                "PYTHON=/path/to/python3.12 bash scripts/setup.sh"
    fi
    echo "setup: no Python 3.11 or 3.12 found: uv python install 3.11 brings one, into uv's own folder"
    UV_PYTHON_INSTALL_BIN=0 "$uv" python install --quiet 3.11 \
        || stop "uv could not install Python 3.11; the message above says why"
    python=$("$uv" python find --system 3.11)
fi

stamp=.venv/.rpg-setup
state=$({ "$python" --version; cat requirements/cpu.txt requirements/vllm-name/pyproject.toml pyproject.toml scripts/setup.sh; pwd; } | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$state" ]]; then
    echo "setup: .venv is up to date"
    exit 0
fi

began=$SECONDS
if [[ ! -x .venv/bin/pip || $(version .venv/bin/python) != $(version "$python") ]]; then
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv --clear .venv
    elif command -v uv >/dev/null; then # Ubuntu's Python comes without ensurepip
        uv venv --quiet --clear --seed --python "$python" .venv
    else
        stop "$python cannot make .venv, it lacks the module ensurepip:" \
            "apt install python$(version "$python")-venv, or install uv"
    fi
fi
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
