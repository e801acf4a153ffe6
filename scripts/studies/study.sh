#!/usr/bin/env bash
# Table 8 of the paper on a task that has to be learned (rpg/toy/chain.py), at one learning rate: all rows and
# GRPO-corrected with 16 optimizer steps per batch as in the paper, and the six main methods with 2 and 64 steps, three
# seeds each. On more seeds: two losses with exchanged advantages, and the highest and the lowest method.
#   bash scripts/studies/study.sh [OVERRIDE...]
#   bash scripts/studies/study.sh lr            the runs that chose the learning rate: two methods, three rates, another seed
# Three minutes per run on two cores. Runs go to checkpoints/study; a finished run is kept, an interrupted one resumes.
# The report's metrics, settings, tables and pictures go to study/.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
rpg=$root/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
python=${rpg%rpg}python
cd "$root"

main=(grpo dapo rpg-ufkl rpg-urkl rpg-reinforce-ufkl rpg-reinforce-urkl)
[[ -f runs/chain/model/model.safetensors ]] || "$python" -m rpg.toy.chain runs/chain

seeds=(1 2 3)
runs=checkpoints/study
out=docs/results/study

study() { # DIRECTORY OPTIMIZER_STEPS METHODS... -- OVERRIDES...; 384 prompts with 8 answers each, 32 at a time or one a step
    local name=$1 steps=$2 methods=() prompts
    prompts=$((steps > 32 ? steps : 32))
    shift 2
    while [[ $1 != -- ]]; do methods+=("$1"); shift; done
    shift
    "$rpg" reproduce 8 dataset=chain model=chain "data.train_batch_size=$prompts" actor_rollout_ref.rollout.n=8 \
        "actor_rollout_ref.actor.ppo_mini_batch_size=$((prompts / steps))" "actor_rollout_ref.actor.optim.lr=$rate" \
        trainer.val_before_train=false "trainer.test_freq=$((192 / prompts))" "$@" --profile cpu \
        --methods "${methods[@]}" --seeds "${seeds[@]}" --steps $((384 / prompts)) --out "$runs/$name"
}

if [[ ${1:-} == lr ]]; then
    seeds=(11)
    for rate in 5e-5 1e-4 2e-4; do
        study "lr_$rate" 16 grpo rpg-reinforce-urkl --
    done
    exit
fi
rate=1e-4
study steps_16 16 all -- "$@"
study steps_2 2 "${main[@]}" -- "$@"
study steps_64 64 "${main[@]}" -- "$@"
seeds+=(4 5 6 7 8 9) # to see again what the first three said; so many were set before one of them was looked at
study advantages/divided 16 rpg-reinforce-urkl -- algorithm.adv_estimator=grpo "$@"
study advantages/not_divided 16 grpo -- algorithm.norm_adv_by_std_in_grpo=false "$@"
seeds=(4 5 6 7 8 9)
study advantages_own 16 grpo rpg-reinforce-urkl -- "$@"
study advantages_twice 16 grpo rpg-reinforce-urkl -- "$@" # what a seed does not fix
study extremes/highest 16 reinforce++ -- "$@" # of thirteen methods, and the lowest, to see them again
study extremes/lowest 16 rpg-fkl -- "$@"

"$python" scripts/studies/compact.py pack "$runs" "$out"
"$python" scripts/studies/study_report.py "$out" "$out"
