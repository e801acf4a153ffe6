#!/usr/bin/env bash
# Run four methods on the toy task and write table, pictures and page here: bash docs/results/toy.sh [OVERRIDE...]
# About five minutes a run on two idle cores. Finished runs are kept and not run again.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
runs=$root/checkpoints/toy_results
cd "$root"
for name in grpo_cpu dapo_cpu rpg_cpu_urkl1e-4 rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28; do
    [[ -d $runs/$name/global_step_20 ]] && continue
    CKPTS_DIR=$runs bash "recipe/rpg/cpu/run_$name.sh" trainer.total_training_steps=20 trainer.test_freq=5 \
        trainer.save_freq=20 trainer.validation_data_dir="$runs/$name/validation" data.seed=1 "$@"
done
rpg=$root/.venv/bin/rpg
[[ -x $rpg ]] || rpg=rpg
"$rpg" plot "$runs" --out docs/results --title "Toy task, four methods, seed 1"
"$rpg" table "$runs" > docs/results/table.md
