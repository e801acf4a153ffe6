#!/usr/bin/env bash
# Four methods on the toy task, then an evaluation of each with 8 samples a problem; tables and picture go here:
#   SEEDS="1 2" bash scripts/studies/toy.sh [OVERRIDE...]
# About five minutes a run and one an evaluation on two idle cores. What is finished is kept and not run again.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
runs=$root/checkpoints/toy_results
evaluations=$root/checkpoints/toy_evaluations
rpg=$root/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
cd "$root"
for seed in ${SEEDS:-1 2}; do
    for name in grpo_cpu dapo_cpu rpg_cpu_urkl1e-4 rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28; do
        script=recipe/rpg/cpu/run_$name.sh run=seed_$seed/$name
        [[ -d $runs/$run/global_step_20 ]] || CKPTS_DIR=$runs/seed_$seed bash "$script" trainer.total_training_steps=20 \
            trainer.test_freq=5 trainer.save_freq=20 "data.seed=$seed" "$@"
        [[ -d $evaluations/$run/validation ]] || "$rpg" eval "$script" "data.seed=$seed" --samples 8 \
            --checkpoint "$runs/$run/global_step_20" --out "$evaluations/$run"
    done
done
[[ -d $evaluations/untrained/validation ]] ||
    "$rpg" eval recipe/rpg/cpu/run_grpo_cpu.sh --samples 8 --out "$evaluations/untrained"
"$rpg" plot "$runs" --out checkpoints/toy_page --title "Toy task, four methods, seeds ${SEEDS:-1 2}"
cp checkpoints/toy_page/panels.png docs/results
"$rpg" table "$runs" > docs/results/table.md
"$rpg" table "$evaluations" > docs/results/evaluation.md
