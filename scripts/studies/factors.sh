#!/usr/bin/env bash
# Is RPG-REINFORCE ahead of DAPO when all else is equal? The paper's table 8 compares them with group filtering in
# both and different advantages. Here every combination of filter (on, off), advantages (divided by the group's
# standard deviation, not divided) and loss (RPG-REINFORCE-URKL with RPG-Style Clip, DAPO) runs on the study's task at
# its learning rate, with the same overlong shaping, bounds (0.2, 0.28), batches and validation. With the filter on, the
# four combinations also run at half that rate with seeds 1 to 4, as the release gives RPG-REINFORCE half of DAPO's.
#   bash scripts/studies/factors.sh [OVERRIDE...]
#   SEEDS="1 2" bash scripts/studies/factors.sh
# Three minutes per run on two cores. A finished run is kept, an interrupted one resumes. Expectations:
# docs/results/expectations.md.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/chain_train.sh"

runs=checkpoints/factors
out=docs/results/factors

filter=algorithm.filter_groups.enable
for seed in ${SEEDS:-1 2 3 4 5 6 7}; do
    cells=(true false)
    ((seed > 4)) || cells+=(true-half)
    for cell in "${cells[@]}"; do
        on=${cell%-half}
        [[ $cell == *-half ]] && rate=5e-5 || rate=1e-4
        train "rpg-divided-$cell" rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28 algorithm.adv_estimator=grpo $filter=$on "$@"
        train "dapo-divided-$cell" dapo_cpu $filter=$on "$@"
        train "rpg-mean-$cell" rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28 $filter=$on "$@"
        train "dapo-mean-$cell" dapo_cpu algorithm.norm_adv_by_std_in_grpo=false $filter=$on "$@"
    done
done
"$python" scripts/studies/compact.py pack "$runs" "$out"
"$python" scripts/studies/factors_report.py "$out" "$out"
