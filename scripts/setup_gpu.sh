#!/usr/bin/env bash
# Install the GPU environment, requirement.txt and this package (editable), into the active environment (VIRTUAL_ENV,
# CONDA_PREFIX, or that of PYTHON), else into a new .venv-gpu, which the launch scripts find. Needs Python 3.11 or 3.12 and
# 10 GB; takes a minute plus the download.
#
#   bash scripts/setup_gpu.sh                with flash-attn if a wheel fits, else without, with the reason
#   FLASH_ATTN_WHEEL=URL                     the wheel: its URL or path, or an index or folder of wheels
#   FLASH_ATTN=1 bash scripts/setup_gpu.sh   with; compiled if no wheel fits, or fail
#   FLASH_ATTN=0 bash scripts/setup_gpu.sh   without; runs then need attention=sdpa (docs/gpu.md)
#
# PyPI has flash-attn as source only; the index `verl-wheelhouse` in the pyproject.toml of verl's main has wheels for torch
# 2.11, CUDA 13 and Python 3.12. Compiling needs nvcc of torch's CUDA (13; CUDA_HOME or PATH) and a C++ compiler. MAX_JOBS
# limits the parallel compilers of up to 9 GB each (default: as memory and half of the cores allow);
# FLASH_ATTN_CUDA_ARCHS is 80 for A100, 90 for H100 and H200 (default: this machine's GPUs).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/venv.sh
RPG_HOME=$PWD
. recipe/rpg/environment.sh
. scripts/flash_attn.sh

[[ $# == 0 ]] || stop "$*: takes no arguments; its head lists the variables"
FLASH_ATTN=${FLASH_ATTN:-}
[[ $FLASH_ATTN =~ ^[01]?$ ]] || stop "FLASH_ATTN=$FLASH_ATTN: 1 also compiles flash-attn, 0 leaves it out; unset: if a wheel fits"
began=$SECONDS
choose_python gpu
if [[ $PYTHON_FROM == PATH || $PYTHON_FROM == .venv-gpu ]]; then
    candidates=(python3.12 python3.11 python3 python) # prebuilt wheels of flash-attn are for 3.12
    [[ $PYTHON_FROM == PATH ]] || candidates=("$PYTHON" "${candidates[@]}")
    find_python "${candidates[@]}"
    make_venv .venv-gpu
    PYTHON=$PWD/.venv-gpu/bin/python PYTHON_FROM="no environment is active"
fi
fits "$PYTHON" || stop "$PYTHON ($PYTHON_FROM) is Python $(version "$PYTHON"); verl and vLLM want 3.11 or 3.12." \
    "Activate an environment of one, or deactivate this one: .venv-gpu is then made"
# before the download of 5 GB: nvidia-smi shows the driver's CUDA, or that of NVIDIA's forward-compatibility package;
# Triton compiles at the first kernel
cuda=$(nvidia-smi 2>/dev/null | grep -o 'CUDA Version: [0-9]*' | grep -o '[0-9]*$' || true)
[[ ${cuda:-13} -ge 13 ]] || stop "the NVIDIA driver is of CUDA $cuda, and torch's CUDA 13 needs driver 580 or later"
header=$("$PYTHON" -c 'import sysconfig
scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
print(sysconfig.get_paths(scheme=scheme)["include"])')/Python.h
[[ -f $header ]] || stop "$header is missing: apt install python$(version "$PYTHON")-dev"
command -v ${CC:-gcc clang} >/dev/null || stop "no C compiler (${CC:-gcc, clang}): apt install gcc, or set CC to one"
say "into $("$PYTHON" -c 'import sys; print(sys.prefix)') ($PYTHON_FROM)"

if "$PYTHON" -m pip --version >/dev/null 2>&1; then
    "$PYTHON" -m pip install --quiet --disable-pip-version-check "$(pinned uv)"
    uv=("$PYTHON" -m uv)
elif command -v uv >/dev/null; then # which makes environments without pip
    uv=(uv)
else
    stop "$PYTHON has no pip, and there is no uv: $PYTHON -m ensurepip"
fi
install() { during "uv pip install $*" "${uv[@]}" pip install --quiet --python "$PYTHON" "$@"; }

# Undeclared build requirements of flash-attn and antlr4's runtime; then torch, which flash-attn's build imports.
install packaging wheel psutil ninja 'setuptools>=77' "$(grep '^torch==' requirement.txt)"
# compile, as in setup.sh
grep -v '^flash-attn==' requirement.txt | install --compile-bytecode --no-build-isolation --requirement -
install --no-build-isolation --no-deps --editable .
install $(for name in hypothesis pytest pytest-timeout pytest-xdist; do pinned "$name"; done) # for scripts/check_gpu.sh
"$PYTHON" -c 'import importlib.metadata, torch, rpg
for name in ("verl", "vllm", "transformers", "ray"): importlib.metadata.version(name)'
say "requirement.txt but for flash-attn is installed, after $((SECONDS - began)) s"

if [[ -z ${FLASH_ATTN_CUDA_ARCHS:-} ]] && command -v nvidia-smi >/dev/null; then # 9.0 -> 90, 8.0 and 8.6 -> 80
    FLASH_ATTN_CUDA_ARCHS=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sed 's/\..*/0/' | sort -u | paste -sd ';')
fi
flash_attn=$(grep '^flash-attn==' requirement.txt)
if [[ $FLASH_ATTN == 0 ]]; then
    say "without flash-attn: runs take attention=sdpa"
elif imports 2>/dev/null; then
    say "$flash_attn is there already, and can be imported"
elif has_wheel; then
    say "$flash_attn is installed from a wheel and can be imported"
elif [[ -n ${FLASH_ATTN_WHEEL:-} ]]; then
    stop "FLASH_ATTN_WHEEL=$FLASH_ATTN_WHEEL cannot be used; the message above says why"
elif [[ $FLASH_ATTN != 1 ]]; then
    say "without flash-attn: the package index has no wheel that fits. Runs take attention=sdpa (docs/gpu.md), which is" \
        "right and slower. With it: FLASH_ATTN_WHEEL=URL names a wheel, FLASH_ATTN=1 compiles it, which takes an hour or more"
elif why=$(obstacle) && [[ -n $why ]]; then
    stop "flash-attn cannot be built: $why"
else
    export FLASH_ATTN_CUDA_ARCHS FLASH_ATTENTION_FORCE_BUILD=TRUE # otherwise it looks for a wheel that is not there
    say "building $flash_attn for sm_$FLASH_ATTN_CUDA_ARCHS on $(nproc) cores: 73 files, minutes each (docs/gpu.md)"
    install --no-build-isolation --no-deps --no-binary flash-attn --reinstall-package flash-attn "$flash_attn" einops
    imports || stop "flash-attn was built and cannot be imported; the message above says why"
    say "$flash_attn is built and can be imported"
fi
say "done in $((SECONDS - began)) s"
