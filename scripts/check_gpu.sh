#!/usr/bin/env bash
# Check this machine's GPUs (16 GB or more) in half an hour, without a download, in the environment of
# scripts/setup_gpu.sh. First the losses and verl's worker. Then train the toy task through profile=gpu with vLLM's CUDA
# build on one GPU, killed and resumed, synchronous and asynchronous; last on all GPUs. Prints a table to paste into an
# issue; exit code 1 if a line failed. Uses the environment of the launch scripts.
#
#   bash scripts/check_gpu.sh               logs in runs/check_gpu
#   bash scripts/check_gpu.sh DIRECTORY     logs there
#
# Without a GPU it runs the lines that need none, losses and worker on the CPU, the launch script up to its refusal, and
# exits with 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
RPG_HOME=$PWD
. recipe/rpg/environment.sh
choose_python gpu
export PYTHON WANDB_MODE=offline HF_HUB_OFFLINE=1
unset RAY_ADDRESS VERL_PLATFORM

if ! cuda=$("$PYTHON" -c 'import torch; print(torch.version.cuda or "")') || [[ -z $cuda ]]; then
    echo "check_gpu.sh: $PYTHON (from $PYTHON_FROM) has no torch that is built for GPUs: bash scripts/setup_gpu.sh makes" \
        "an environment that has, PYTHON=/path/to/python names one" >&2
    exit 2
fi
gpus=$("$PYTHON" -c 'import torch; print(torch.cuda.device_count())')
if ((gpus)); then device=cuda marker=gpu; else device=cpu marker=full; fi

directory=${1:-runs/check_gpu}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
. scripts/try.sh

versions() { "$PYTHON" -m tests.gpu.versions; }
pytests() { "$PYTHON" -m pytest -p no:cacheprovider --timeout=900 -q -s "$@"; }
has() { "$PYTHON" -c 'import importlib.util, sys; sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))' "$@"; }
benchmark() {
    "$PYTHON" scripts/bench.py losses --rounds 11 --names rpg_urkl rpg_rf_urkl_clip_ppo "$@" | tee "$directory/bench.txt"
    sed -n 's/^\(rpg_rf_urkl_clip_ppo\(, compiled\)\{0,1\}\)  *[0-9.]* *\([0-9.]*\) .*/figure: \1 takes \3 of vanilla + k3/p' \
        "$directory/bench.txt"
}
refusal() { # SCRIPT OVERRIDE...: on no GPU the launch script ends with 2 and names that
    local said code=0
    said=$(bash "$@" trainer.n_gpus_per_node=1 2>&1) || code=$?
    echo "$said"
    [[ $code == 2 ]]
    grep -q 'n_gpus_per_node=1: this machine has 0' <<< "$said"
}

if ! has verl transformers vllm ray pytest; then
    echo "check_gpu.sh: bash scripts/setup_gpu.sh installs verl, vLLM, Ray and pytest" >&2
    exit 2
fi
try "machine and versions" versions
try "rpg verify" "$PYTHON" -m rpg.cli verify
try "losses on the device against float64 on the CPU" "$PYTHON" -m rpg.cli verify --device "$device"
try "verl's worker without vLLM" pytests -m "$marker" tests/gpu/test_engine.py
try "the plugin in a fresh process" "$PYTHON" -m rpg.cli doctor
try "toy models" "$PYTHON" -m tests.gpu.toys
toy=recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh
if ((gpus)); then
    try "losses as verl calls them, CUDA against CPU" pytests tests/gpu/test_cuda.py
    try "timings of the losses" benchmark --device cuda
    try "Qwen2 toy: 30 steps, killed and resumed" pytests tests/gpu/test_gpu_stack.py -k qwen2
    try "Qwen3 toy: asynchronous" pytests tests/gpu/test_gpu_stack.py -k qwen3
    ((gpus == 1)) || try "Qwen2 toy on 2, 4 or 8 of $gpus GPUs" pytests tests/gpu/test_gpu_stack.py -k many_gpus
else
    for family in qwen2 qwen3; do
        try "$family toy up to the device" refusal "$toy" attention=sdpa \
            "actor_rollout_ref.model.path=$PWD/runs/toy_gpu/$family" \
            "data.train_files=$PWD/runs/toy_gpu/toy_train.parquet" "data.val_files=$PWD/runs/toy_gpu/toy_test.parquet"
    done
fi

printf '\n| check | | s | figures |\n|---|---|---|---|\n'
printf '%s\n' "${table[@]}"
if ((failed)); then echo "$failed of $number failed, after $SECONDS s; logs: $directory"; exit 1; fi
if ! ((gpus)); then
    echo "there is no GPU here: CUDA tests, timings and training were not run ($SECONDS s)"
    exit 1
fi
echo "all $number passed, after $SECONDS s"
