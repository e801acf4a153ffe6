#!/usr/bin/env bash
# Collect the wheels that tests/gpu/test_engine.py needs on a Linux x86-64 machine that has torch and transformers and no
# network. verl's worker imports Ray without starting it, so Ray's wheel goes without binaries of the cluster, jars and
# libraries. On the machine:
#
#   bash scripts/gpu_wheels.sh DIRECTORY 3.12    here: DIRECTORY, for Python 3.12 (default: this Python)
#   for wheel in DIRECTORY/*.whl; do python -m zipfile -e "$wheel" packages; done       there, with this checkout
#   PYTHONPATH=.:packages python -m pytest -s -m gpu tests/gpu/test_engine.py
#
# `packages` comes before the machine's own packages, of which none is replaced. 98 MB, of which pyarrow has 55, pandas 12
# and Ray 17 (79 whole).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
directory=${1:?a directory for the wheels}
PYTHON=${PYTHON:-python3}
release=${2:-$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}
packages=(
    accelerate annotated-doc annotated-types attrs charset-normalizer cloudpickle codetiming datasets dill fastapi
    hydra-core hypothesis iniconfig jsonschema jsonschema-specifications msgpack multiprocess omegaconf orjson pandas
    peft pillow pluggy protobuf psutil pyarrow pydantic pydantic-core pygments pytest python-dateutil pyvers ray
    referencing requests rpds-py schedulefree shtab sortedcontainers starlette tensordict typing-inspection urllib3
    uvicorn verl xxhash
)

pin() { # NAME: as requirement.txt, else requirements/cpu.txt pins it
    local found
    found=$(sed -n "s/^\($1\)\(\[.*\]\)\{0,1\}\(==[^ ;]*\).*/\1\3/p" requirement.txt requirements/cpu.txt | head -n 1)
    [[ -n $found ]] || { echo "gpu_wheels.sh: $1 is pinned in neither requirement.txt nor requirements/cpu.txt" >&2; exit 1; }
    echo "$found"
}

mkdir -p "$directory"
pins=()
for name in "${packages[@]}"; do pins+=("$(pin "$name")"); done
"$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version "$release" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --dest "$directory" "${pins[@]}"
"$PYTHON" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$directory" \
    "$(pin antlr4-python3-runtime)" # published as source alone; pure Python
"$PYTHON" - "$directory"/ray-*.whl << 'END'
import sys, zipfile
from pathlib import Path

UNUSED = ("jars/", "rllib/", "serve/", "tune/", "train/", "data/", "llm/", "dashboard/client/",
          "core/src/ray/raylet/", "core/src/ray/gcs/", "core/libjemalloc.so", "cpp/")
whole = Path(sys.argv[1])
part = whole.with_suffix(".part")
with zipfile.ZipFile(whole) as old, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as new:
    for item in old.infolist():
        if not item.filename.startswith(tuple(f"ray/{name}" for name in UNUSED)):
            new.writestr(item, old.read(item))
part.replace(whole)
END
du -ch "$directory"/*.whl | tail -n 1
