#!/usr/bin/env bash
# Train on one GPU, then measure, what is least known first. Each step has a time limit and a verdict; what no longer
# fits into MINUTES is not begun. Prints a table to paste into an issue; exit code 1 unless every step passed. One GPU of
# 16 GB, the environment of scripts/setup_gpu.sh; no download where runs/smollm2 is there.
#
#   bash scripts/check_gpu.sh                        all steps, logs in runs/check_gpu
#   bash scripts/check_gpu.sh DIRECTORY              logs there
#   MINUTES=9 FIRST=3 LAST=5 bash scripts/check_gpu.sh    steps 3 to 5, in 9 minutes; 1 to 5 are planned for 12
#   REHEARSE=1 bash scripts/check_gpu.sh             without a GPU: compose the runs, the losses on the CPU
#
# Never seen: a training step on a GPU (docs/gpu.md has what was), so the limits are guesses from a start of 3.5 minutes
# beside other checks.
set -euo pipefail
[[ ${1:-} != -* ]] || { sed -n 2,12p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
RPG_HOME=$PWD
. recipe/rpg/environment.sh
choose_python gpu
export PYTHON WANDB_MODE=offline HF_HUB_OFFLINE=1
unset RAY_ADDRESS VERL_PLATFORM
REHEARSE=${REHEARSE:-} MINUTES=${MINUTES:-60} FIRST=${FIRST:-1} LAST=${LAST:-99}

gpus=$("$PYTHON" -c 'import torch; print(torch.cuda.device_count())')
if ((gpus == 0)) && [[ -z $REHEARSE ]]; then
    echo "check_gpu.sh: the torch of $PYTHON (from $PYTHON_FROM) sees no GPU; rpg doctor says why" >&2
    exit 2
fi
device=cuda
if [[ -n $REHEARSE ]]; then device=cpu; export DRY_RUN=1; fi
directory=${1:-runs/check_gpu}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
. scripts/try.sh

count=0 missed=0 limit=
step() { # SECONDS WHAT COMMAND...
    local left=$((60 * MINUTES - SECONDS))
    count=$((count + 1))
    if ((count < FIRST || count > LAST)); then return; fi
    if ((left < 60)); then
        missed=$((missed + 1))
        table+=("| $count. $2 | not begun | | |")
        return
    fi
    limit=$(($1 < left ? $1 : left)) # for `limited`, in the functions below
    number=$((count - 1))            # try's, for the log's name
    try "$count. $2" "${@:3}"
}
limited() { timeout --signal=INT --kill-after=20 "$limit" "$@"; }
python() { limited "$PYTHON" "$@"; }
pytests() { python -m pytest -p no:cacheprovider -q -s "$@"; }

one_gpu=(
    profile=gpu trainer.n_gpus_per_node=1 'trainer.logger=[console,file]' trainer.val_before_train=true
    actor_rollout_ref.rollout.gpu_memory_utilization=0.3 actor_rollout_ref.rollout.max_num_seqs=256
    actor_rollout_ref.rollout.calculate_log_probs=true
)
"$PYTHON" -c 'import flash_attn' 2>/dev/null || one_gpu+=(attention=sdpa)
toy() { # STEPS: without a decay of the learning rate, so that STEPS may grow in a resume
    limited bash recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh "${one_gpu[@]}" \
        "actor_rollout_ref.model.path=$PWD/runs/toy_gpu/qwen2" actor_rollout_ref.actor.optim.lr=2e-4 \
        "data.train_files=$PWD/runs/toy_gpu/toy_train.parquet" "data.val_files=$PWD/runs/toy_gpu/toy_test.parquet" \
        actor_rollout_ref.rollout.val_kwargs.n=4 "trainer.default_local_dir=$directory/toy" \
        "trainer.total_training_steps=$1" "trainer.test_freq=$1" trainer.save_freq=5
}
smollm2() {
    limited bash recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_noiterref_smollm2.sh "${one_gpu[@]}" \
        "trainer.default_local_dir=$directory/smollm2" trainer.total_training_steps=20 trainer.test_freq=20
}
learned() { # RUN SOURCE STEPS GAIN: ends with 1 unless vLLM had the weights and the accuracy rose by GAIN in STEPS
    [[ -n $REHEARSE ]] || "$PYTHON" - "$directory/$1/metrics.jsonl" "${@:2}" << 'END'
import json, statistics, sys

path, source, steps, gain = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
records = {}
for record in map(json.loads, open(path)):
    records.setdefault(record["step"], {}).update(record["data"])
assert [*records] == [*range(steps + 1)], [*records]
[key] = [key for key in records[0] if key.startswith(f"val-core/{source}/acc/mean@")]
first, last = records[0][key], records[steps][key]
trained = [records[step] for step in range(1, steps + 1)]
kl = max(abs(record["rollout_corr/kl"]) for record in trained)
print(f"figure: accuracy {first:.3f} to {last:.3f} in {steps} steps of {statistics.median(r['timing_s/step'] for r in trained):.2f} s;"
      f" rollout KL at most {kl:.1e}; ratio at most {max(r['actor/rpg_ratio_max'] for r in trained):.2f}")
assert last - first >= gain
assert kl < 2e-3  # bfloat16 moves a log-prob by 0.045 at most (docs/gpu.md), and the KL by half the square of that
END
}
train_toy() { toy 20; learned toy toy_sum 20 0.15; }          # half of the demo's gain in 30 steps
train_smollm2() { smollm2; learned smollm2 small_sums 20 0.2; } # the demo's, in 12
resume_and_kill() { # goes on from step 20, dies after 25, resumes there
    if [[ -n $REHEARSE ]]; then toy 30; return; fi
    local began=$SECONDS run
    toy 30 &
    until grep -qs '"step": *25,' "$directory/toy/metrics.jsonl"; do
        sleep 1
        kill -0 $! || return 1 # it ended, or its limit did
    done
    run=$(pgrep -f -- "-m rpg[.]run .*default_local_dir=$directory/toy" | sort -n | head -n 1) # its oldest process
    kill -KILL "$run"
    wait || true
    limit=$((limit - SECONDS + began))
    toy 30
    learned toy toy_sum 30 0.2
}
losses() { # of what a step computes from the logits on; bfloat16 logits take 10 GB, and with their gradients 30
    local shape=(--rows 8 --tokens 4096 --vocabulary 150000)
    [[ -z $REHEARSE ]] || shape=(--rows 2 --tokens 64 --vocabulary 1000)
    python scripts/bench.py losses --rounds 11 --device "$device" "$@" "${shape[@]}" | tee "$directory/losses.txt"
    sed -n 's/^\(rpg_\(rf_\)\?urkl\(_clip_ppo\)\?\)  *[0-9.]* *\([0-9.]*\) .*/figure: \1 \4 of vanilla + k3/p' "$directory/losses.txt"
}

# 1 to 5: the quarter of an hour
"$PYTHON" -m tests.gpu.versions
if [[ -z $REHEARSE ]]; then
    "$PYTHON" -m tests.gpu.toys # 16 s a model that runs/toy_gpu lacks
    "$PYTHON" -m rpg.cli demo --model smollm2 --prepare-only # 93 MB, if runs/smollm2 lacks it
fi
step 270 "Qwen2 toy, profile=gpu: 20 steps" train_toy
step 210 "SmolLM2-135M in bfloat16: 20 steps" train_smollm2
step 240 "the toy resumed, killed and resumed" resume_and_kill
step 120 "losses on 8 x 4,096 tokens, 150,000 logits each" losses --names rpg_urkl rpg_rf_urkl_clip_ppo
if [[ -z $REHEARSE ]]; then
    step 60 "flash-attn in verl's worker" pytests -m gpu tests/gpu/test_engine.py -k flash
    # 6 on: what has passed once, or is less urgent
    step 200 "losses on the device against float64 on the CPU" python -m rpg.cli verify --device cuda
    step 600 "verl's worker without vLLM" pytests -m gpu tests/gpu/test_engine.py
    step 400 "Qwen3 toy: asynchronous" pytests tests/gpu/test_gpu_stack.py -k qwen3
    ((gpus == 1)) || step 600 "Qwen2 toy on 2, 4 or 8 of $gpus GPUs" pytests tests/gpu/test_gpu_stack.py -k many_gpus
fi

printf '\n| check | | s | figures |\n|---|---|---|---|\n'
printf '%s\n' "${table[@]}"
echo "$((${#table[@]} - failed - missed)) passed, $failed failed, $missed not begun, after $SECONDS s; logs: $directory"
((failed + missed == 0))
